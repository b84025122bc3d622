"""Finds areas of intersections of boxes that count boxes without one, because no side is clamped at 0.

left, right = torch.maximum(a[:, 0], b[:, 0]), torch.minimum(a[:, 2], b[:, 2])
inter = (right - left) * (bottom - top)         # two negative sides have a positive product
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.syntax import is_variable, last_name, names_in
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.syntax import Scope

UNCLAMPED: Final = "intersection-unclamped"

_LOWER: Final = frozenset({"min", "minimum", "fmin"})
_HIGHER: Final = frozenset({"max", "maximum", "fmax"})
_PRODUCT: Final = "prod"
_OVERLAPS: Final = re.compile(r"iou|intersect|overlap|union|jaccard|nms|(^|_)inter(_|$)", re.IGNORECASE)
_LIMITS: Final = re.compile(
    r"clamp(_min)?_?|clip_?|relu_?|threshold_?|where|maximum|max|gt|ge|lt|le|greater|less|greater_equal|less_equal"
)
"""Functions that limit a side, or tell whether it is positive."""


class _Side(NamedTuple):
    """One side of an intersection, or both in a tensor: its variables, and those of the coordinates of the boxes."""

    variables: set[str]
    coordinates: set[str]


def unclamped_intersections(scope: Scope) -> Iterator[Pattern]:
    """The products of two sides of an intersection that may both be negative. `names` has the product."""
    if not any(map(_OVERLAPS.search, (scope.name, *scope.words))):
        return
    for node in scope.nodes:
        sides = _sides(node, scope) if isinstance(node, (ast.BinOp, ast.Call)) else []
        if sides and not _are_limited(sides, scope):
            yield Pattern(UNCLAMPED, node.lineno, (ast.unparse(node),))  # type: ignore[attr-defined]


def _sides(node: ast.BinOp | ast.Call, scope: Scope) -> list[_Side]:
    """The sides that a product multiplies; none if it is no area of an intersection."""
    if isinstance(node, ast.BinOp):
        if not isinstance(node.op, ast.Mult) or ast.unparse(node.left) == ast.unparse(node.right):
            return []
        sides = [_side(each, scope) for each in (node.left, node.right)]
        return [each for each in sides if each is not None] if None not in sides else []
    if last_name(node.func) != _PRODUCT or not isinstance(node.func, ast.Attribute):
        return []
    is_function = bool(scope.module_of(node.func.value))
    side = _side(node.args[0] if is_function and node.args else node.func.value, scope)
    return [side] if side is not None else []


def _side(value: ast.expr, scope: Scope) -> _Side | None:
    """A side of an intersection, the lower of two ends minus the higher of two beginnings; None for anything else."""
    if isinstance(value, ast.Subscript):
        value = value.value
    variables = names_in(value) if is_variable(value) else set()
    value = scope.resolved(value)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and isinstance(value.right, ast.Constant):
        value = value.left
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Sub):
        return None
    ends = [
        scope.resolved(each.value if isinstance(each, ast.Subscript) else each) for each in (value.left, value.right)
    ]
    lower, higher = _compared(ends[0], _LOWER), _compared(ends[1], _HIGHER)
    if not lower or not higher or not lower.isdisjoint(higher):
        return None
    return _Side(variables, set[str]().union(*map(_coordinates, (value, *ends))))


def _coordinates(value: ast.expr) -> set[str]:
    """The variables of an expression, without those that only select some of their elements."""
    indices = (each.slice for each in ast.walk(value) if isinstance(each, ast.Subscript))
    return names_in(value).difference(*map(names_in, indices))


def _compared(value: ast.expr, functions: frozenset[str]) -> set[str]:
    """The two expressions of which a function takes the lower, or the higher; none for anything else."""
    if not isinstance(value, ast.Call) or value.keywords or last_name(value.func) not in functions:
        return set()
    compared = list(value.args)
    if len(compared) == 1 and isinstance(value.func, ast.Attribute):
        compared.append(value.func.value)
    is_known = len(compared) == 2 and not any(isinstance(each, (ast.Constant, ast.Starred)) for each in compared)
    return set(map(ast.unparse, compared)) if is_known else set()


def _are_limited(sides: list[_Side], scope: Scope) -> bool:
    """Whether a function limits a side, or tests anything about it or its coordinates."""
    variables = set[str]().union(*(side.variables for side in sides))
    read = variables.union(*(side.coordinates for side in sides)) - set(scope.modules)
    for node in scope.nodes:
        if isinstance(node, ast.Compare):
            is_order = any(isinstance(each, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for each in node.ops)
            tested = names_in(node) & read if is_order else set()
        elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
            tested = names_in(node.test) & read
        elif isinstance(node, ast.Call) and _LIMITS.fullmatch(last_name(node.func)):
            tested = names_in(node) & variables
        else:
            continue
        if tested:
            return True
    return False
