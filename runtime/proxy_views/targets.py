"""The target of the node of a call: the function itself, an operator, a method, or a stand-in."""

from __future__ import annotations

import operator
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.fx.node import _get_qualified_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_views.steps import TorchCall

_OF_TWO: Final = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "matmul", "eq", "ne", "lt", "le", "gt", "ge")},
    "div": operator.truediv,
    "true_divide": operator.truediv,
    "remainder": operator.mod,
}
"""Operators by the method names that torch reports, which are the same for `x + 1` and `x.add(1)`."""

_SPECIAL: Final = {
    f"__{name}__": getattr(operator, name)
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift"),
        *("lt", "le", "gt", "ge", "eq", "ne", "neg", "invert", "getitem", "setitem"),
        *("iadd", "isub", "imul", "itruediv", "ipow", "iand", "ior", "ixor", "ilshift", "irshift"),
    )
} | {"__and__": operator.and_, "__or__": operator.or_, "__xor__": operator.xor}

_TORCH: Final = "torch."
_DESCRIPTORS: Final = {"__get__": getattr, "__set__": setattr, "__delete__": delattr}


class Method:
    """Calls a method of its first argument: a `call_method` node as a function."""

    def __init__(self, name: str) -> None:
        self.name = self.__name__ = name
        self.__module__ = __name__

    def __call__(self, owner: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the method, and return its result."""
        return getattr(owner, self.name)(*args, **kwargs)

    def __deepcopy__(self, memo: Any) -> Method:
        return self


class StandIn:
    """Calls a function that generated code could not name, because `torch.fx` mistakes it for one of torch's own."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = self.__qualname__ = getattr(function, "__name__", "call")
        self.__module__ = __name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, and return its result."""
        return self.function(*args, **kwargs)

    def __deepcopy__(self, memo: Any) -> StandIn:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return StandIn, (portable(self.function),)


class Targets:
    """Finds the targets of calls. A function has the same target each time."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}

    def of(self, call: TorchCall) -> tuple[str, Any]:
        """The `op` of the node of a call, and its target."""
        function = call.function
        name = getattr(function, "__name__", type(function).__name__)
        if name in _DESCRIPTORS:
            return "call_function", _DESCRIPTORS[name]
        is_method = hasattr(function, "__objclass__") or getattr(function, "__qualname__", "").startswith("Tensor.")
        if not is_method:
            return "call_function", self._nameable(function)
        if name in _SPECIAL:
            return "call_function", _SPECIAL[name]
        if name in _OF_TWO and len(call.args) == 2 and not call.kwargs:
            return "call_function", _OF_TWO[name]
        return "call_method", name

    def _nameable(self, function: Any) -> Any:
        known = self._known.get(id(function))
        if known is None:
            known = self._known[id(function)] = (function, function if _can_be_named(function) else StandIn(function))
        return known[1]


def arguments_of(call: TorchCall, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of the node. Those of an attribute access include the attribute's name."""
    function: Any = call.function
    name = getattr(function, "__name__", "")
    if name not in _DESCRIPTORS:
        return args
    owner = function.__self__
    attribute = getattr(owner, "__name__", None) or getattr(getattr(owner, "fget", None), "__name__", "")
    return (args[0], attribute, *args[1:]) if name == "__set__" else (args[0], attribute)


def _can_be_named(function: Any) -> bool:
    """Whether generated code can find `function`. `torch.fx` makes functions outside torch available to it."""
    try:
        name = _get_qualified_name(function)
        if not name.startswith(_TORCH):
            return True
        found = _found_in_torch(name)
    except (AttributeError, RuntimeError, AssertionError):
        return False
    return found is function or found == function


def _found_in_torch(name: str) -> Any:
    """The object in torch with the qualified name `name`."""
    return reduce(getattr, name.split(".")[1:], torch)


class _Portable:
    """Pickles as a reference to an object in torch by its qualified name. Not all of torch's objects can be pickled."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return _found_in_torch, (self._name,)


def portable(value: Any) -> Any:
    """`value`, or a stand-in that can be pickled and loads as the same torch function or memory format."""
    if isinstance(value, torch.memory_format):
        return _Portable(str(value))
    if isinstance(value, (torch.Tensor, type)) or not callable(value) or isinstance(value, (Method, StandIn)):
        return value
    try:
        name = _get_qualified_name(value)
        return _Portable(name) if name.startswith(_TORCH) and _found_in_torch(name) is value else value
    except (AttributeError, RuntimeError, AssertionError):
        return value
