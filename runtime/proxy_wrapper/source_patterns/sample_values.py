"""Finds values in the attributes of a data set, as its code that returns a sample reads them. None of it is run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.program_code.syntax import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN: Final = object()

_DEEPEST: Final = 20
"""How deep an expression may be, variables replaced."""


class Evaluator:
    """Finds the values of attributes, variables and items, without running code of the program."""

    def __init__(self, values: Mapping[str, Any], assigned: Mapping[str, ast.expr]) -> None:
        self._values = values
        self._assigned = assigned

    def value_of(self, node: ast.expr, depth: int = 0) -> Any:
        """The value of an expression; `UNKNOWN` if it cannot be found."""
        if depth > _DEEPEST:
            return UNKNOWN
        found: Any = UNKNOWN
        if isinstance(node, ast.Constant):
            found = node.value
        elif isinstance(node, ast.Name):
            if node.id in self._values:
                found = self._values[node.id]
            elif node.id in self._assigned:
                found = self.value_of(self._assigned[node.id], depth + 1)
        elif isinstance(node, ast.Attribute):
            owner = self.value_of(node.value, depth + 1)
            found = _attribute(owner, node.attr)
        elif isinstance(node, ast.Subscript):
            found = _item(self.value_of(node.value, depth + 1), self._index(node.slice, depth + 1))
        elif isinstance(node, (ast.BinOp, ast.UnaryOp)):
            found = self._number(node, depth)
        return found

    def _index(self, node: ast.expr, depth: int) -> Any:
        if isinstance(node, ast.Tuple):
            parts = tuple(self._index(each, depth) for each in node.elts)
            return UNKNOWN if UNKNOWN in parts else parts
        if isinstance(node, ast.Slice):
            ends = [
                None if each is None else self.value_of(each, depth) for each in (node.lower, node.upper, node.step)
            ]
            return slice(*ends) if all(each is None or type(each) is int for each in ends) else UNKNOWN
        value = self.value_of(node, depth)
        return value if value is None or value is ... or type(value) is int else UNKNOWN

    def _number(self, node: ast.BinOp | ast.UnaryOp, depth: int) -> Any:
        """The value of a sum or difference of numbers, as in `self.frames[index + 1]`."""
        if isinstance(node, ast.UnaryOp):
            value = self.value_of(node.operand, depth + 1)
            return -value if isinstance(node.op, ast.USub) and type(value) is int else UNKNOWN
        left, right = self.value_of(node.left, depth + 1), self.value_of(node.right, depth + 1)
        if type(left) is not int or type(right) is not int or not isinstance(node.op, (ast.Add, ast.Sub)):
            return UNKNOWN
        return left + right if isinstance(node.op, ast.Add) else left - right


def _attribute(owner: Any, name: str) -> Any:
    """An attribute that an object itself holds; `UNKNOWN` if it holds none."""
    try:
        return object.__getattribute__(owner, "__dict__").get(name, UNKNOWN)
    except AttributeError:  # It has no dictionary.
        return UNKNOWN


def _item(owner: Any, index: Any) -> Any:
    """An item of an array, a tensor or a list; `UNKNOWN` if there is none, or for other objects."""
    if index is UNKNOWN or not (is_array(owner) or type(owner) in (list, tuple)):
        return UNKNOWN
    try:
        return owner[index]
    except (IndexError, TypeError):
        return UNKNOWN


def is_array(value: Any) -> bool:
    """Whether a value is a tensor or an array of NumPy."""
    return type(value) is torch.Tensor or (type(value).__module__, type(value).__name__) == ("numpy", "ndarray")


def assigned_once(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """The variables of a function that it assigns once, with what it assigns."""
    scope = Scope(function)
    return {
        target.id: value
        for target, value in scope.assignments
        if isinstance(target, ast.Name) and len(scope.stores(target.id)) == 1
    }
