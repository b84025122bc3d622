"""Finds differences of unsigned bytes that wrap around, in the code of a data set that returns a sample.

`self.after[index] - self.before[index]` of two uint8 arrays is 255 where the pixel got darker by 1. The operands are
looked up in the attributes of the data set, for a few of its samples. None of its code is run.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from proxy_wrapper.source_patterns.syntax import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

UNSIGNED: Final = "unsigned-difference"

_UNKNOWN: Final = object()
_MOST_SAMPLES: Final = 8
_LARGEST: Final = 1 << 22
"""The most elements of an operand that is compared."""
_DEEPEST: Final = 20
"""How deep an expression may be, variables replaced."""
_SUBTRACTIONS: Final = frozenset({"sub", "subtract"})


class UnsignedDifference(NamedTuple):
    """A difference that wraps around: its line, and its operands as they are written."""

    line: int
    names: tuple[str, str]


def unsigned_differences(
    function: ast.FunctionDef, dataset: Any, count: Callable[[], int]
) -> Iterator[UnsignedDifference]:
    """The differences in a data set's `__getitem__` that wrap around for some of its samples.

    Args:
        function: the syntax of `__getitem__`.
        dataset: the data set.
        count: how many samples it has; called only if there is a subtraction.
    """
    arguments = [each.arg for each in function.args.args]
    if len(arguments) != len(("self", "index")):
        return
    differences = list(_differences(function))
    if not differences:
        return
    scope, samples = Scope(function), count()
    assigned = {
        target.id: value
        for target, value in scope.assignments
        if isinstance(target, ast.Name) and len(scope.stores(target.id)) == 1
    }
    chosen = range(0, samples, max(1, samples // _MOST_SAMPLES))
    for line, left, right in differences:
        for index in chosen:
            evaluator = _Evaluator({arguments[0]: dataset, arguments[1]: index}, assigned)
            if _wraps(evaluator.value_of(left), evaluator.value_of(right)):
                yield UnsignedDifference(line, (ast.unparse(left), ast.unparse(right)))
                break


def _differences(function: ast.FunctionDef) -> Iterator[tuple[int, ast.expr, ast.expr]]:
    """The lines and operands of subtractions."""
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            yield node.lineno, node.left, node.right
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SUBTRACTIONS:
            operands = node.args if len(node.args) > 1 else [node.func.value, *node.args]
            if len(operands) == len(("left", "right")):
                yield node.lineno, operands[0], operands[1]


class _Evaluator:
    """Finds the values of attributes, variables and items, without running code of the program."""

    def __init__(self, values: Mapping[str, Any], assigned: Mapping[str, ast.expr]) -> None:
        self._values = values
        self._assigned = assigned

    def value_of(self, node: ast.expr, depth: int = 0) -> Any:
        """The value of an expression; `_UNKNOWN` if it cannot be found."""
        if depth > _DEEPEST:
            return _UNKNOWN
        found: Any = _UNKNOWN
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
            return _UNKNOWN if _UNKNOWN in parts else parts
        if isinstance(node, ast.Slice):
            ends = [
                None if each is None else self.value_of(each, depth) for each in (node.lower, node.upper, node.step)
            ]
            return slice(*ends) if all(each is None or type(each) is int for each in ends) else _UNKNOWN
        value = self.value_of(node, depth)
        return value if value is None or value is ... or type(value) is int else _UNKNOWN

    def _number(self, node: ast.BinOp | ast.UnaryOp, depth: int) -> Any:
        """The value of a sum or difference of numbers, as in `self.frames[index + 1]`."""
        if isinstance(node, ast.UnaryOp):
            value = self.value_of(node.operand, depth + 1)
            return -value if isinstance(node.op, ast.USub) and type(value) is int else _UNKNOWN
        left, right = self.value_of(node.left, depth + 1), self.value_of(node.right, depth + 1)
        if type(left) is not int or type(right) is not int or not isinstance(node.op, (ast.Add, ast.Sub)):
            return _UNKNOWN
        return left + right if isinstance(node.op, ast.Add) else left - right


def _attribute(owner: Any, name: str) -> Any:
    """An attribute that an object itself holds; `_UNKNOWN` if it holds none."""
    try:
        return object.__getattribute__(owner, "__dict__").get(name, _UNKNOWN)
    except AttributeError:  # It has no dictionary.
        return _UNKNOWN


def _item(owner: Any, index: Any) -> Any:
    """An item of an array, a tensor or a list; `_UNKNOWN` if there is none, or for other objects."""
    if index is _UNKNOWN or not (_is_array(owner) or type(owner) in (list, tuple)):
        return _UNKNOWN
    try:
        return owner[index]
    except (IndexError, TypeError):
        return _UNKNOWN


def _is_array(value: Any) -> bool:
    return type(value) is torch.Tensor or (type(value).__module__, type(value).__name__) == ("numpy", "ndarray")


def _wraps(left: Any, right: Any) -> bool:
    """Whether the difference of two arrays of bytes wraps around."""
    if not (_is_array(left) and _is_array(right)) or {str(left.dtype), str(right.dtype)} - {"torch.uint8", "uint8"}:
        return False
    if type(left) is not type(right) or left.shape != right.shape or math.prod(left.shape) > _LARGEST:
        return False
    return bool((left < right).any())
