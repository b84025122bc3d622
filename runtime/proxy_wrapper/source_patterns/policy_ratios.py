"""Finds clipped policy ratios that are 1 in every pass over the same data.

`(logp - logp.detach()).exp()` is 1 wherever the policy is. In the first pass over new data this is the ratio of the
policies; in further passes, the policy has changed since it chose the actions, and the ratio must tell by how much.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import is_variable, last_name, names_in, nodes_within
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

RATIO_OF_ONE: Final = "ratio-of-one"

_CLIPS: Final = frozenset({"clamp", "clip"})
_KEEPING: Final = frozenset(
    {"mean", "std", "view", "reshape", "flatten", "squeeze", "unsqueeze", "detach", "to", "float", "clone"}
)
"""Methods of tensors that make no other data."""


def policy_ratios(scope: Scope) -> Iterator[Pattern]:
    """The exponentials of a scope that are always 1, and are clipped. `other` is the line of the loop of passes."""
    if "exp" not in scope.words or scope.words.isdisjoint(_CLIPS):
        return
    for target, value in scope.assignments:
        difference = _exponent(value, scope)
        if difference is None or not isinstance(target, ast.Name) or not _is_of_itself(difference, scope):
            continue
        if not any(last_name(call.func) in _CLIPS and target.id in names_in(call) for call in scope.calls):
            continue
        weights = [
            other
            for node in scope.nodes
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
            for one, other in ((node.left, node.right), (node.right, node.left))
            if ast.unparse(one) == target.id
        ]
        for loop in scope.nodes:
            if isinstance(loop, ast.For) and _is_of_passes(loop):
                inside = nodes_within(loop)
                is_inside = any(node is value for node in inside)
                if is_inside and any(_is_made_before(each, inside) for each in weights):
                    yield Pattern(RATIO_OF_ONE, value.lineno, (ast.unparse(value),), loop.lineno)
                    break


def _exponent(value: ast.expr, scope: Scope) -> ast.BinOp | None:
    """The difference of which an expression is the exponential; None if it is not one."""
    if not isinstance(value, ast.Call) or last_name(value.func) != "exp":
        return None
    inner = value.args[0] if value.args else value.func.value if isinstance(value.func, ast.Attribute) else None
    inner = None if inner is None else scope.resolved(inner)
    return inner if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub) else None


def _is_of_itself(difference: ast.BinOp, scope: Scope) -> bool:
    """Whether a variable is subtracted from itself, detached: at once, or by another variable."""
    if not is_variable(difference.left):
        return False
    left, right = ast.unparse(difference.left), difference.right
    detached = (f"{left}.detach()", f"{left}.data", f"{left}.clone().detach()", f"{left}.detach().clone()")
    if ast.unparse(right) in detached:
        return True
    name = ast.unparse(right)
    made, old = scope.stores(left), scope.stores(name)
    if len(made) != 1 or len(old) != 1 or not made[0] < old[0] < difference.lineno:
        return False
    return any(ast.unparse(target) == name and ast.unparse(value) in detached for target, value in scope.assignments)


def _is_of_passes(loop: ast.For) -> bool:
    """Whether a loop trains several times with what it does not change: `for epoch in range(4)`."""
    counts = loop.iter.args if isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "range" else []
    is_once = len(counts) == 1 and isinstance(counts[0], ast.Constant) and counts[0].value == 1
    words = {node.attr for node in ast.walk(loop) if isinstance(node, ast.Attribute)}
    return len(counts) == 1 and not is_once and {"backward", "step"} <= words


def _is_made_before(value: ast.expr, inside: Sequence[ast.AST]) -> bool:
    """Whether the values of an expression come from before a loop: from variables that nothing in it assigns."""
    stored: dict[str, list[ast.expr | None]] = {}
    for node in inside:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored.setdefault(node.id, [])
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            stored.setdefault(node.targets[0].id, []).append(node.value)
    pending, seen = [value], set()
    for each in pending:
        source = _source(each)
        if source is None:
            continue
        if source not in stored:
            return True
        if source not in seen:
            seen.add(source)
            pending += [value for value in stored[source] if value is not None]
    return False


def _source(value: ast.expr) -> str | None:
    """The variable that an expression has its values from, scaled or in part; None if there is none."""
    while not isinstance(value, ast.Name):
        if isinstance(value, ast.Subscript):
            value = value.value
        elif isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Sub, ast.Div)):
            value = value.left
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _KEEPING:
            value = value.func.value
        else:
            return None
    return value.id
