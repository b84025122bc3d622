"""Computes what expressions of a function stand for, as far as that runs no code of the program.

Known are variables with given values, globals, attributes, items of tensors and arrays, shapes, dtypes, and sums of
whole numbers. Variables that are assigned once stand for what they are assigned.
"""

from __future__ import annotations

import ast
import inspect
import operator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from proxy_wrapper.program_code.outermost_calls import UNKNOWN
from proxy_wrapper.program_code.syntax import defaults_of
from proxy_wrapper.values.describe import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy_wrapper.program_code.syntax import Scope

_DEEPEST: Final = 20
_OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_LARGEST: Final = 1 << 40
_EMPTY: Final[dict[str, Any]] = {}


class KnownExpressions:
    """The values of the expressions of a function. Ask for them where torch calls are unobserved.

    Args:
        scope: the syntax of the function.
        arguments: the values of its arguments.
        names: the globals in which it looks up names.
        variables: the values that its variables have now, while it runs.
    """

    def __init__(
        self,
        scope: Scope,
        arguments: Mapping[str, Any],
        names: Mapping[str, Any] = _EMPTY,
        variables: Mapping[str, Any] = _EMPTY,
    ) -> None:
        self._scope = scope
        self._arguments = arguments
        self._names = names
        self._variables = variables

    def value_of(self, node: ast.expr | None, depth: int = 0) -> Any:
        """The value of an expression; `UNKNOWN` if it is not known."""
        found: Any = UNKNOWN
        if node is None or depth > _DEEPEST:
            return found
        if isinstance(node, ast.Constant):
            found = node.value
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            operand = self.value_of(node.operand, depth + 1)
            found = -operand if type(operand) is int else UNKNOWN
        elif isinstance(node, ast.Name):
            found = self._variable(node.id, depth + 1)
        elif isinstance(node, ast.Attribute):
            found = _attribute(self.value_of(node.value, depth + 1), node.attr)
        elif isinstance(node, ast.Subscript):
            found = _item(self.value_of(node.value, depth + 1), self._index(node.slice, depth + 1))
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            sides = (self.value_of(node.left, depth + 1), self.value_of(node.right, depth + 1))
            if all(type(each) is int and abs(each) < _LARGEST for each in sides):
                found = _OPERATORS[type(node.op)](*sides)
        elif isinstance(node, ast.Call) and not node.keywords and len(node.args) <= 1:
            found = self._size(node, depth + 1)
        return found

    def _variable(self, name: str, depth: int) -> Any:
        scope = self._scope
        stores = len(scope.stores(name))
        given = self._arguments.get(name, UNKNOWN)
        if name in self._arguments and (not stores or given is not None):
            return UNKNOWN if stores else given
        if stores <= 1 and name in self._variables:
            return self._variables[name]
        if not stores:
            return self._names.get(name, UNKNOWN)
        for target, value in scope.assignments if stores == 1 else ():
            if isinstance(target, ast.Name) and target.id == name:
                return self.value_of(value, depth)
            elements = target.elts if isinstance(target, ast.Tuple) else []
            places = [place for place, each in enumerate(elements) if isinstance(each, ast.Name) and each.id == name]
            if places and not any(isinstance(each, ast.Starred) for each in elements):
                whole = self.value_of(value, depth)
                return _item(whole, places[0]) if type(whole) is tuple else UNKNOWN
        return UNKNOWN

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

    def _size(self, call: ast.Call, depth: int) -> Any:
        """The value of `x.size()`, `x.size(0)` or `len(x)`."""
        if isinstance(call.func, ast.Name) and call.func.id == "len" and call.args:
            shape, index = _attribute(self.value_of(call.args[0], depth), "shape"), 0
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "size":
            shape = _attribute(self.value_of(call.func.value, depth), "shape")
            if not call.args:
                return shape
            index = self.value_of(call.args[0], depth)
        else:
            return UNKNOWN
        return _item(shape, index)


def bound_arguments(scope: Scope, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a function's arguments, as far as they are known."""
    if not isinstance(scope.root, ast.FunctionDef):
        return {}
    given = scope.root.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    found = dict.fromkeys([*names, *(each.arg for each in given.kwonlyargs)], UNKNOWN)
    found |= {name: default.value for name, default in defaults_of(given).items() if isinstance(default, ast.Constant)}
    return found | dict(zip(names, args, strict=False)) | {**kwargs}


def is_array(value: Any) -> bool:
    """Whether a value is a tensor or an array of NumPy."""
    return type(value) is torch.Tensor or (type(value).__module__, type(value).__name__) == ("numpy", "ndarray")


def _attribute(value: Any, name: str) -> Any:
    """An attribute, looked up without running the program's code."""
    if type(value) in PLAIN:
        if name == "dtype":
            return value.dtype
        return tuple(value.shape) if name == "shape" and not value.is_nested else UNKNOWN
    if isinstance(value, nn.Module):
        for held in ("_parameters", "_buffers", "_modules"):
            found = (vars(value).get(held) or {}).get(name, UNKNOWN)
            if found is not UNKNOWN:
                return found
    found = UNKNOWN if value is UNKNOWN else inspect.getattr_static(value, name, UNKNOWN)
    is_plain = type(found) in (int, torch.dtype, *PLAIN) or isinstance(value, ModuleType)
    return found if is_plain or not hasattr(type(found), "__get__") else UNKNOWN


def _item(owner: Any, index: Any) -> Any:
    """An item of an array, a tensor or a list; `UNKNOWN` if there is none, or for other objects."""
    if index is UNKNOWN or not (is_array(owner) or type(owner) in (list, tuple)):
        return UNKNOWN
    try:
        return owner[index]
    except (IndexError, TypeError, RuntimeError):  # Some tensors, such as nested ones, have no items.
        return UNKNOWN
