"""Follows the output of a model through the function that calls it, as long as its values stay the same.

Nothing is run. A variable is followed only if the function assigns it once, and only through calls and attributes that
do not change the values of a tensor.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SAME_SHAPE: Final = frozenset({"float", "detach", "cpu", "cuda", "to", "data", "contiguous", "clone", "double"})
"""Methods and attributes of a tensor that change neither its values nor its shape."""
SAME_VALUES: Final = SAME_SHAPE | {
    *("squeeze", "unsqueeze", "view", "reshape", "flatten", "ravel", "numpy", "T", "view_as", "tolist")
}
"""Methods and attributes of a tensor that do not change its values."""


def variable_of_call(
    function: ast.AST, line: int, is_model: Callable[[ast.expr], bool], keeping: frozenset[str] = SAME_VALUES
) -> str | None:
    """The variable to which the statement at a line assigns the output of the model, but for what `keeping` does."""
    found = None
    for node in ast.walk(function):
        is_here = isinstance(node, ast.Assign) and node.lineno <= line <= (node.end_lineno or node.lineno)
        if is_here and isinstance(node, ast.Assign) and len(node.targets) == 1:
            (target,) = node.targets
            value = stripped(node.value, keeping)
            if isinstance(target, ast.Name) and isinstance(value, ast.Call) and is_model(value.func):
                found = target.id if stores(function, target.id) == 1 else None
    return found


def stores(function: ast.AST, name: str) -> int:
    """How often a function assigns a variable."""
    nodes = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return sum(node.id == name and not isinstance(node.ctx, ast.Load) for node in nodes)


def same_values(function: ast.AST, name: str) -> set[str]:
    """The variables with the same values as a given one, including that one."""
    names = {name}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            other = node.targets[0].id
            if other not in names and source_of(node.value) in names and stores(function, other) == 1:
                names.add(other)
    return names


def source_of(value: ast.expr, keeping: frozenset[str] = SAME_VALUES) -> str | None:
    """The variable with the values of an expression; None if there is none."""
    value = stripped(value, keeping)
    return value.id if isinstance(value, ast.Name) else None


def stripped(value: ast.expr, keeping: frozenset[str] = SAME_VALUES) -> ast.expr:
    """An expression without calls and attributes that do not change its values."""
    while True:
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in keeping:
            value = value.func.value
        elif isinstance(value, ast.Attribute) and value.attr in keeping:
            value = value.value
        else:
            return value
