"""Finds the lines of a function that multiply log-probabilities by returns, told by their names.

`log_prob * R`, `log_probs * (returns - baseline)` and `ratio * advantages` are such products; `log_prob * -R` is none,
and neither is one by a cost.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name, nodes_within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_POLICY: Final = re.compile(r".*log_?p(rob)?s?(_.*)?|(.*_)?ratios?", re.IGNORECASE)
_RETURNS: Final = re.compile(r"(.*_)?(rewards?|returns?|rets?|adv|advs|advantages?|gaes?|rtgs?)(_.*)?|R|G|Gt|G_t|r")
_OTHER: Final = re.compile(r"neg|minus|cost|loss|penalt", re.IGNORECASE)
_SAME_SIGN: Final = frozenset(
    {"detach", "unsqueeze", "squeeze", "view", "reshape", "float", "to", "flatten", "tensor", "as_tensor", "clone"}
)
_NEGATING: Final = frozenset({"neg", "neg_", "negative", "negative_", "sub", "sub_", "rsub"})


def policy_products(syntax: ast.AST) -> Iterator[int]:
    """The lines of a function, or of a script outside its functions, with such a product."""
    nodes = nodes_within(syntax)
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for policy, weight in ((node.left, node.right), (node.right, node.left)):
                if _is_policy(policy) and _is_return(weight, nodes):
                    yield node.lineno


def may_negate(syntax: ast.AST) -> bool:
    """Whether a function negates something that is computed from returns, by their names."""
    return any(_has_return(each) for node in nodes_within(syntax) for each in _negated_by(node))


def _negated_by(node: ast.AST) -> Sequence[ast.expr]:
    """The expressions of which a node makes the negative."""
    if isinstance(node, ast.UnaryOp):
        return [node.operand] if isinstance(node.op, ast.USub) else []
    if isinstance(node, ast.BinOp):
        is_scaled = isinstance(node.op, (ast.Mult, ast.Div)) and (_is_negative(node.left) or _is_negative(node.right))
        return [node.left, node.right] if is_scaled else []
    if isinstance(node, ast.AugAssign):
        return [node.target] if isinstance(node.op, (ast.Mult, ast.Div)) and _is_negative(node.value) else []
    if isinstance(node, ast.Call):
        is_negation = last_name(node.func) in _NEGATING or any(_is_negative(each) for each in _factors(node))
        return [node.func, *node.args] if is_negation else []
    return []


def _factors(call: ast.Call) -> Sequence[ast.expr]:
    """The arguments of a call of `mul`."""
    return call.args if last_name(call.func) in ("mul", "mul_", "multiply") else ()


def _is_negative(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def _has_return(node: ast.expr) -> bool:
    """Whether an expression mentions a return."""
    parts = (part for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute)))
    return any(_RETURNS.fullmatch(last_name(part)) for part in parts)


def _is_policy(node: ast.expr) -> bool:
    node = _without_calls(node)
    if isinstance(node, ast.Subscript):
        node = node.value
    return bool(_POLICY.fullmatch(last_name(node.func if isinstance(node, ast.Call) else node)))


def _is_return(node: ast.expr, nodes: Sequence[ast.AST], *, is_followed: bool = True) -> bool:
    """Whether an expression is a return or an advantage, larger for better actions, by its name and its assignments."""
    node = _without_calls(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Sub, ast.Add, ast.Div, ast.Mult)):
        return _is_return(node.left, nodes, is_followed=is_followed)
    if isinstance(node, ast.Subscript):
        return _is_return(node.value, nodes, is_followed=is_followed)
    name = last_name(node)
    if not _RETURNS.fullmatch(name) or _OTHER.search(name):
        return False
    return not is_followed or not any(
        _is_reversed(other.value, nodes)
        for other in nodes
        if isinstance(other, ast.Assign) and any(last_name(target) == name for target in other.targets)
    )


def _is_reversed(value: ast.expr, nodes: Sequence[ast.AST]) -> bool:
    """Whether an expression subtracts from something other than a return."""
    value = _without_calls(value)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        value = _without_calls(value.left)
    is_difference = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub)
    return is_difference and isinstance(value, ast.BinOp) and not _is_return(value.left, nodes, is_followed=False)


def _without_calls(node: ast.expr) -> ast.expr:
    """An expression without methods and functions that leave the sign as it is."""
    while isinstance(node, ast.Call) and last_name(node.func) in _SAME_SIGN:
        if isinstance(node.func, ast.Attribute) and last_name(node.func) not in ("tensor", "as_tensor"):
            node = node.func.value
        elif node.args:
            node = node.args[0]
        else:
            break
    return node
