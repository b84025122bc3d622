"""Plain functions of a program that have rows of their own, and what is registered for them."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch._C import DisableTorchFunction
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves, tree_map

from proxy_views.leaf_functions import standing_in
from proxy_views.profile.errors import FlopImplementationError, PlainFunctionError
from proxy_wrapper.intercept.attaching.call_sites import hide_frames

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from proxy_views.profile.calls import Call

_Implementation = TypeVar("_Implementation", bound="Callable[..., Any]")


class PlainFunction:
    """What is registered for a function: its FLOP count, and its stand-in for tensors without data."""

    __slots__ = ("flops", "shape")

    def __init__(self) -> None:
        self.flops: Callable[..., Any] | None = None
        self.shape: Callable[..., Any] | None = None


class _Registered:
    """The functions registered in this process, just as torch keeps the formulas of operators."""

    def __init__(self) -> None:
        self.functions: WeakKeyDictionary[FunctionType, PlainFunction] = WeakKeyDictionary()

    def entry_of(self, function: object) -> PlainFunction:
        """The mutable registration of `function`.

        Raises:
            PlainFunctionError: if it is not a plain Python function.
        """
        if not isinstance(function, FunctionType):
            raise PlainFunctionError(function)
        return self.functions.setdefault(function, PlainFunction())


_registered: Final = _Registered()


def register_flop_impl(function: Callable[..., Any]) -> Callable[[_Implementation], _Implementation]:
    """A decorator for the function that counts the FLOPs of `function`, a plain Python function, in all profiles.

    It is called like `function`, and returns two integers: the FLOPs of the forward and of the backward pass. They
    replace the FLOPs of all calls inside, in each convention. Those of the backward pass count each time that autograd
    computes gradients of something inside the function.

    Raises:
        PlainFunctionError: if `function` is not a plain Python function.
    """
    entry = _registered.entry_of(function)

    def register(implementation: _Implementation) -> _Implementation:
        entry.flops = implementation
        return implementation

    return register


def register_shape_impl(function: Callable[..., Any]) -> Callable[[_Implementation], _Implementation]:
    """A decorator for the stand-in of `function`, a plain Python function, for tensors without data.

    Under `FakeTensorMode`, and with tensors on the device "meta", it is called instead of `function` in a profiled
    block, and returns tensors like those of `function`.

    Raises:
        PlainFunctionError: if `function` is not a plain Python function.
    """
    entry = _registered.entry_of(function)

    def register(implementation: _Implementation) -> _Implementation:
        entry.shape = implementation
        return implementation

    return register


class FunctionsSeen(Protocol):
    """Is notified of calls of registered functions."""

    def enter_function(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Call | None:
        """Note that a registered function is being called. None if the call is not observed."""

    def leave_function(self, call: Call, result: Any, stated: tuple[int, int] | None) -> None:
        """Note that it has returned `result`."""


class FunctionCalls:
    """Notifies `seen` of calls of registered functions, by replacing their code from `install` to `remove`."""

    def __init__(self, seen: FunctionsSeen) -> None:
        self._seen = seen
        self._replaced: list[tuple[FunctionType, CodeType, CodeType]] = []

    def install(self) -> None:
        """See calls from now on."""
        for function, registered in tuple(_registered.functions.items()):
            original = function.__code__
            replacement = standing_in(original, self._handler(function, registered))
            function.__code__ = replacement
            self._replaced.append((function, original, replacement))

    def remove(self) -> None:
        """Stop, and restore the code unless other code has replaced ours since."""
        for function, original, replacement in reversed(self._replaced):
            if function.__code__ is replacement:
                function.__code__ = original
        self._replaced.clear()

    def _handler(self, function: FunctionType, registered: PlainFunction) -> Callable[[Any, Any], Any]:
        inner = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        inner.__kwdefaults__ = function.__kwdefaults__

        def handle(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            call = self._seen.enter_function(function, args, kwargs)
            result, stated = None, None
            try:
                if call is not None and registered.flops is not None:
                    stated = _pair(function, registered.flops(*args, **kwargs))
                if registered.shape is not None and _lack_data(args, kwargs):
                    result = _stand_in(registered.shape(*args, **kwargs), args, kwargs)
                else:
                    result = inner(*args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise
            finally:
                if call is not None:
                    self._seen.leave_function(call, result, stated)
            return result

        return handle


def _pair(function: Any, given: Any) -> tuple[int, int]:
    if not isinstance(given, tuple) or len(given) != 2 or not all(isinstance(each, int) for each in given):
        raise FlopImplementationError(function, given)
    return given


def _lack_data(args: Any, kwargs: Any) -> bool:
    with DisableTorchFunction():
        return any(
            isinstance(each, FakeTensor) or (isinstance(each, torch.Tensor) and each.is_meta)
            for each in tree_leaves((args, kwargs))
        )


class _StandIn(torch.autograd.Function):
    """Connects tensors created from nothing to inputs in the graph, so that a backward pass reaches these."""

    @staticmethod
    def forward(ctx: Any, made: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        ctx.likes = [each.detach() if isinstance(each, torch.Tensor) else None for each in given]
        return made.view_as(made)

    @staticmethod
    def backward(ctx: Any, *_gradients: torch.Tensor) -> Any:
        return (None, *(None if like is None else torch.empty_like(like) for like in ctx.likes))


def _stand_in(result: Any, args: Any, kwargs: Any) -> Any:
    """`result`, connected so that gradients reach the arguments that require them."""
    given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor) and each.requires_grad]
    if not given or not torch.is_grad_enabled():
        return result

    def connect(value: Any) -> Any:
        is_made = isinstance(value, torch.Tensor) and value.is_floating_point() and not value.requires_grad
        return _StandIn.apply(value, *given) if is_made else value  # type: ignore[no-untyped-call]

    return tree_map(connect, result)
