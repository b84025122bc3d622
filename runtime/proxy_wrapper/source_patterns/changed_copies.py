"""Finds statements that change a copy in place, and nothing else: `labels[is_prompt].fill_(-100)`.

A mask gives a copy of what it selects. Only `labels[is_prompt] = -100` changes `labels`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.imported_modules import TORCH
from proxy_wrapper.program_code.syntax import last_name
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.syntax import Scope

CHANGED: Final = "copy-changed"

_IN_PLACE: Final = frozenset(
    {"fill_", "zero_", "copy_", "add_", "sub_", "mul_", "div_", "neg_", "clamp_", "masked_fill_", "normal_", "uniform_"}
)
_OF_TENSORS: Final = frozenset({"unsqueeze", "view", "view_as", "expand", "expand_as", "softmax", "sigmoid", "argmax"})
"""Methods that only tensors have. What is compared with their result is a tensor, too."""
_MASKS: Final = frozenset(
    {"isnan", "isinf", "isfinite", "logical_not", "logical_and", "logical_or", "eq", "ne", "gt", "ge", "lt", "le"}
)
_ELEMENTWISE: Final = (ast.BitAnd, ast.BitOr, ast.BitXor)


def changed_copies(scope: Scope) -> Iterator[Pattern]:
    """The statements of a scope that change what a mask has selected, and not what it selected from."""
    for node in scope.nodes:
        for selected in _changed_by(node):
            if _is_mask(selected.slice, selected.value, scope):
                yield Pattern(CHANGED, selected.lineno, (ast.unparse(selected),))


def _changed_by(node: ast.AST) -> Iterator[ast.Subscript]:
    """The items of which a statement changes the memory: `x[i].zero_()`, or `x[i][j] = 0`."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        item = node.value.func.value
        if node.value.func.attr in _IN_PLACE and isinstance(item, ast.Subscript):
            yield item
    elif isinstance(node, (ast.Assign, ast.AugAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Subscript):
                yield target.value


def _is_mask(index: ast.expr, indexed: ast.expr, scope: Scope) -> bool:
    """Whether an index is surely a tensor of true and false values, and no Python value."""
    if isinstance(index, ast.Name):
        value = scope.resolved(index)
        return not isinstance(value, ast.Name) and _is_mask(value, indexed, scope)
    if isinstance(index, ast.UnaryOp):
        return isinstance(index.op, ast.Invert) and _is_mask(index.operand, indexed, scope)
    if isinstance(index, ast.BinOp):
        parts = (index.left, index.right)
        return isinstance(index.op, _ELEMENTWISE) and any(_is_mask(each, indexed, scope) for each in parts)
    if isinstance(index, ast.Compare):
        is_elementwise = not isinstance(index.ops[0], (ast.In, ast.NotIn, ast.Is, ast.IsNot))
        sides = (index.left, *index.comparators)
        return is_elementwise and any(ast.unparse(each) == ast.unparse(indexed) or _is_tensor(each) for each in sides)
    if isinstance(index, ast.Call) and isinstance(index.func, ast.Attribute):
        is_of_torch = scope.module_of(index.func.value) == TORCH
        return index.func.attr == "bool" or (is_of_torch and index.func.attr in _MASKS)
    return False


def _is_tensor(side: ast.expr) -> bool:
    """Whether one side of a comparison is surely a tensor."""
    return isinstance(side, ast.Call) and isinstance(side.func, ast.Attribute) and last_name(side.func) in _OF_TENSORS
