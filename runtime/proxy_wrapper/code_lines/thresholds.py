"""Finds the line of a function that compares the output of a model with 0.5, as if it were a probability.

Nothing is run. A variable is followed only if the function assigns it once, and only through calls and attributes that
do not change the values of a tensor.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HALF: Final = 0.5
_KEEPING: Final = frozenset(
    {"squeeze", "unsqueeze", "view", "reshape", "flatten", "ravel", "float", "detach", "cpu", "cuda", "to", "numpy"}
    | {"data", "T", "contiguous", "clone", "double", "view_as", "tolist"}
)
"""Methods and attributes of a tensor that do not change its values."""
_GREATER: Final = frozenset({"gt", "ge", "greater", "greater_equal"})


class Threshold(NamedTuple):
    """The line that compares an output with 0.5, and whether a loss that takes logits also receives the output."""

    line: int
    has_loss: bool


def threshold_of_call(
    function: ast.AST,
    line: int,
    is_model: Callable[[ast.expr], bool],
    is_loss: Callable[[ast.expr], bool],
    followed: Callable[[ast.expr], ast.FunctionDef | None],
) -> Threshold | None:
    """The comparison with 0.5 of the output of the model that a function calls at a line; None if there is none.

    Args:
        function: the syntax of the function, or of the script whose code calls the model.
        line: the line that calls the model.
        is_model: whether an expression is the model.
        is_loss: whether an expression is a loss that takes logits.
        followed: the syntax of the function that an expression names; None if it cannot be read.
    """
    found = _assigned_at(function, line, is_model)
    if found is None:
        return None
    names = _same_values(function, found)
    compared = next(_compared(function, names), 0)
    has_loss = False
    for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
        places = [place for place, each in enumerate(call.args) if _source(each) in names]
        if not places:
            continue
        has_loss |= places[0] == 0 and is_loss(call.func)
        inner = None if compared else followed(call.func)
        if inner is not None:
            compared = _compared_argument(inner, places[0])
    return Threshold(compared, has_loss) if compared else None


def _assigned_at(function: ast.AST, line: int, is_model: Callable[[ast.expr], bool]) -> str | None:
    """The variable to which the statement at a line assigns the unchanged output of the model."""
    found = None
    for node in ast.walk(function):
        is_here = isinstance(node, ast.Assign) and node.lineno <= line <= (node.end_lineno or node.lineno)
        if is_here and isinstance(node, ast.Assign) and len(node.targets) == 1:
            (target,) = node.targets
            value = _stripped(node.value)
            if isinstance(target, ast.Name) and isinstance(value, ast.Call) and is_model(value.func):
                found = target.id if _stores(function, target.id) == 1 else None
    return found


def _stores(function: ast.AST, name: str) -> int:
    """How often a function assigns a variable."""
    nodes = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return sum(node.id == name and not isinstance(node.ctx, ast.Load) for node in nodes)


def _same_values(function: ast.AST, name: str) -> set[str]:
    """The variables with the same values as a given one, including that one."""
    names = {name}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            other = node.targets[0].id
            if other not in names and _source(node.value) in names and _stores(function, other) == 1:
                names.add(other)
    return names


def _compared(function: ast.AST, names: set[str]) -> Iterator[int]:
    """The lines that compare one of some variables with 0.5."""
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            sides = (node.left, node.comparators[0])
            is_order = isinstance(node.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE))
            if is_order and any(_source(one) in names and _is_half(other) for one, other in (sides, sides[::-1])):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GREATER:
            given = [*node.args] if len(node.args) > 1 else [node.func.value, *node.args]
            if len(given) > 1 and _source(given[0]) in names and _is_half(given[1]):
                yield node.lineno


def _compared_argument(function: ast.FunctionDef, place: int) -> int:
    """The line where a function compares one of its arguments with 0.5; 0 if it does not, or reassigns the argument."""
    arguments = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    name = arguments[place] if place < len(arguments) else ""
    if not name or _stores(function, name):
        return 0
    return next(_compared(function, _same_values(function, name)), 0)


def _is_half(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value == HALF


def _source(value: ast.expr) -> str | None:
    """The variable with the values of an expression; None if there is none."""
    value = _stripped(value)
    return value.id if isinstance(value, ast.Name) else None


def _stripped(value: ast.expr) -> ast.expr:
    """An expression without calls and attributes that do not change its values."""
    while True:
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _KEEPING:
            value = value.func.value
        elif isinstance(value, ast.Attribute) and value.attr in _KEEPING:
            value = value.value
        else:
            return value
