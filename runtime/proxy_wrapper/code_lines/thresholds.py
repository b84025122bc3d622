"""Finds the line of a function that compares the output of a model with 0.5, as if it were a probability."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.code_lines.outputs_of_calls import same_values, source_of, stores, variable_of_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HALF: Final = 0.5
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
    found = variable_of_call(function, line, is_model)
    if found is None:
        return None
    names = same_values(function, found)
    compared = next(_compared(function, names), 0)
    has_loss = False
    for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
        places = [place for place, each in enumerate(call.args) if source_of(each) in names]
        if not places:
            continue
        has_loss |= places[0] == 0 and is_loss(call.func)
        inner = None if compared else followed(call.func)
        if inner is not None:
            compared = _compared_argument(inner, places[0])
    return Threshold(compared, has_loss) if compared else None


def _compared(function: ast.AST, names: set[str]) -> Iterator[int]:
    """The lines that compare one of some variables with 0.5."""
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            sides = (node.left, node.comparators[0])
            is_order = isinstance(node.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE))
            if is_order and any(source_of(one) in names and _is_half(other) for one, other in (sides, sides[::-1])):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GREATER:
            given = [*node.args] if len(node.args) > 1 else [node.func.value, *node.args]
            if len(given) > 1 and source_of(given[0]) in names and _is_half(given[1]):
                yield node.lineno


def _compared_argument(function: ast.FunctionDef, place: int) -> int:
    """The line where a function compares one of its arguments with 0.5; 0 if it does not, or reassigns the argument."""
    arguments = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    name = arguments[place] if place < len(arguments) else ""
    if not name or stores(function, name):
        return 0
    return next(_compared(function, same_values(function, name)), 0)


def _is_half(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value == HALF
