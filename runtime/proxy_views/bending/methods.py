"""Observes the calls of single methods of a model, for targets such as `encode:conv`.

A program may hold a method under any number of names. While there are such targets, the code object of its function is
therefore replaced, once for all of them.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

from proxy_views.bending.targets import method_of
from proxy_views.leaf_functions import standing_in
from proxy_wrapper.intercept.attaching.call_sites import hide_frames
from proxy_wrapper.live import ChangingObserver
from proxy_wrapper.proxy import change_of_thread

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType

    from torch import nn

    from proxy_views.bending.bends import Bend


class MethodListener(ChangingObserver, Protocol):
    """Notified when a method is called and when it ends."""

    def enter_method(self, model: nn.Module, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A method is called."""

    def leave_method(self, model: nn.Module, method: str, *, raised: bool) -> None:
        """A method has returned or raised."""


class _Watched:
    """A function whose calls are reported. Its replaced code calls this object."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.watches: tuple[MethodWatch, ...] = ()
        self.original: CodeType = function.__code__
        inner = FunctionType(
            self.original, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        inner.__kwdefaults__ = function.__kwdefaults__
        self._inner = inner
        self.replacement = standing_in(self.original, self)

    @classmethod
    def of(cls, function: FunctionType) -> _Watched:
        """The one that the function's code already calls, or a new one."""
        for each in function.__code__.co_consts:
            if isinstance(each, _Watched):
                return each
        watched = cls(function)
        function.__code__ = watched.replacement
        return watched

    def add(self, watch: MethodWatch) -> None:
        """Report calls to `watch` too."""
        self.watches = (*self.watches, watch)

    def remove(self, watch: MethodWatch) -> None:
        """Stop reporting to `watch`. With the last one, restore the code, unless something else replaced ours since."""
        self.watches = tuple(each for each in self.watches if each is not watch)
        if not self.watches and self.function.__code__ is self.replacement:
            self.function.__code__ = self.original

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        watching = [each for each in self.watches if args and each.model is args[0] and each.is_of_this_thread]
        for each in watching:
            each.calls.enter_method(each.model, each.method, args[1:], kwargs)
        try:
            result = self._inner(*args, **kwargs)
        except BaseException as error:
            for each in reversed(watching):
                each.calls.leave_method(each.model, each.method, raised=True)
            hide_frames(error)
            raise
        for each in reversed(watching):
            each.calls.leave_method(each.model, each.method, raised=False)
        return result


class MethodWatch:
    """Reports the calls of one method of one model on one thread."""

    def __init__(self, function: FunctionType, model: nn.Module, method: str, calls: MethodListener) -> None:
        """Start reporting to `calls`.

        Args:
            function: the method's function, inside its decorators.
            model: the model that has the method.
            method: the name of the method.
            calls: the listener.
        """
        self.model, self.method, self.calls = model, method, calls
        self._watched = _Watched.of(function)
        self._watched.add(self)

    @property
    def is_of_this_thread(self) -> bool:
        """Whether the calling thread is the one whose calls are bent."""
        return change_of_thread() is self.calls

    def end(self) -> None:
        """Stop reporting."""
        self._watched.remove(self)


def watch_methods(bend: Bend, calls: MethodListener) -> list[MethodWatch]:
    """Start reporting to `calls` the methods that the targets of a bend name."""
    methods = {target.method: target.text for target in bend.targets if target.method}
    return [
        MethodWatch(method_of(bend.model, text, method), bend.model, method, calls) for method, text in methods.items()
    ]
