"""Finds numbers that a function counts, as by `torch.arange`, and then holds in half precision."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from proxy_wrapper.program_code.outermost_calls import UNKNOWN
from proxy_wrapper.program_code.syntax import certain_nodes, last_name, nodes_within
from proxy_wrapper.values.describe import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.known_expressions import KnownExpressions
    from proxy_wrapper.program_code.syntax import Scope

EXACT: Final = {torch.bfloat16: 256, torch.float16: 2048}
"""The number up to which each type holds every whole number."""

_ARANGE: Final = "arange"
_CONVERSIONS: Final = frozenset({"to", "type_as", "type", "half", "bfloat16"})
_SHAPING: Final = frozenset({"unsqueeze", "view", "reshape", "float", "long", "expand", "repeat"})
_PERIODIC: Final = frozenset({"sin", "cos", "polar", "sin_", "cos_"})
POSITIONS: Final = re.compile(r"(^|_)pos(_|$)|position", re.IGNORECASE)
"""Names of positions."""
_MOST_PARTS: Final = 20


class HalfRange(NamedTuple):
    """Numbers that are counted in half precision: the line, how many there are, and up to where they are exact."""

    line: int
    total: int
    exact: int


def half_ranges(scope: Scope, known: KnownExpressions) -> Iterator[HalfRange]:
    """The positions that a function surely counts beyond the exact numbers of the type in which it holds them.

    Positions are numbers in a variable with such a name, or in a function that computes sines or cosines.
    """
    if _ARANGE not in scope.words:
        return
    is_periodic = not scope.words.isdisjoint(_PERIODIC)
    for call in certain_nodes(scope):
        counted = _counted(call, scope) if isinstance(call, ast.Call) else None
        if counted is None or not isinstance(call, ast.Call):
            continue
        dtype = known.value_of(_keyword(call, "dtype")) if counted is call else _converted(call, known)
        exact = EXACT.get(dtype, 0) if type(dtype) is torch.dtype else 0
        count = _count(counted, known) if exact else 0
        if count > exact + 1 and (is_periodic or _names_positions(call, scope)):
            yield HalfRange(call.lineno, count, exact)


def range_lines(scope: Scope) -> Iterator[int]:
    """The lines of a function that count numbers, and give them another type than that of whole numbers."""
    yield from (call.lineno for call in scope.calls if _ARANGE in scope.words and _counted(call, scope) is not None)


def _counted(call: ast.Call, scope: Scope) -> ast.Call | None:
    """The call of `arange` whose numbers a call gives a type: itself, or that in `arange(n).to(dtype)`."""
    if last_name(call.func) == _ARANGE:
        return call if _keyword(call, "dtype") is not None else None
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _CONVERSIONS:
        return None
    node: ast.expr = call.func.value
    for _ in range(_MOST_PARTS):
        node = scope.resolved(node)
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPING:
            node = node.func.value
        else:
            break
    is_range = isinstance(node, ast.Call) and last_name(node.func) == _ARANGE
    return node if is_range and isinstance(node, ast.Call) and _keyword(node, "dtype") is None else None


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg == name), None)


def _converted(call: ast.Call, known: KnownExpressions) -> Any:
    """The type that `to`, `type_as`, `half` or `bfloat16` gives."""
    name = last_name(call.func)
    if name in ("half", "bfloat16"):
        return torch.float16 if name == "half" else torch.bfloat16
    for given in (_keyword(call, "dtype"), *call.args):
        value = known.value_of(given)
        if type(value) is torch.dtype:
            return value
        if type(value) in PLAIN:
            return value.dtype
    return UNKNOWN


def _count(call: ast.Call, known: KnownExpressions) -> int:
    """How many numbers `arange` gives, beginning with a small one and without a step; 0 if unknown."""
    first, last = (known.value_of(each) for each in call.args) if len(call.args) == 2 else (0, _end(call, known))
    are_numbers = type(first) is int and type(last) is int
    return last - first if are_numbers and len(call.args) in (1, 2) and 0 <= first <= 1 else 0


def _end(call: ast.Call, known: KnownExpressions) -> Any:
    return known.value_of(call.args[0]) if len(call.args) == 1 else UNKNOWN


def _names_positions(call: ast.Call, scope: Scope) -> bool:
    """Whether a variable that is computed from a call has the name of positions."""
    return any(
        POSITIONS.search(ast.unparse(target)) is not None
        for target, value in scope.assignments
        if value is call or any(node is call for node in nodes_within(value))
    )
