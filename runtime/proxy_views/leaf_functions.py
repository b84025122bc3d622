"""Observes the calls of plain functions that are to be single nodes.

A program may hold a function under any number of names, so its code object is replaced for the duration of a block. The
new code notifies the live observer of the calling thread, and calls the original.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from proxy_views.errors import LeafFunctionError
from proxy_wrapper.intercept.attaching.call_sites import hide_frames
from proxy_wrapper.places.location import STAND_IN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType

    from proxy_wrapper.live import LiveObserver

_HANDLER: Final = "the constant in whose place the handler comes"


def _stand_in(*args: Any, **kwargs: Any) -> Any:
    return "the constant in whose place the handler comes".__call__(args, kwargs)  # type: ignore[operator]


class LeafFunctions:
    """Functions whose calls are reported to the live observer of the calling thread."""

    def __init__(self, functions: Iterable[Callable[..., Any]]) -> None:
        """Take plain Python functions. None is replaced before `install`.

        Raises:
            LeafFunctionError: if one is not a plain Python function.
        """
        self._functions: list[FunctionType] = []
        for each in functions:
            if not isinstance(each, FunctionType):
                raise LeafFunctionError(each)
            self._functions.append(each)
        self._originals: list[tuple[FunctionType, CodeType, CodeType]] = []

    def install(self, live: Callable[[], LiveObserver | None]) -> None:
        """Replace the code of each. `live` returns the live observer of the calling thread."""
        for function in self._functions:
            original = function.__code__
            replacement = standing_in(original, _handler(function, live))
            self._originals.append((function, original, replacement))
            function.__code__ = replacement

    def remove(self) -> None:
        """Restore the code of each, unless something else has replaced ours since."""
        for function, original, replacement in reversed(self._originals):
            if function.__code__ is replacement:
                function.__code__ = original
        self._originals.clear()


def _handler(function: FunctionType, live_of_thread: Callable[[], LiveObserver | None]) -> Callable[[Any, Any], Any]:
    """The function to call in place of `function`, with its arguments as a tuple and a dictionary."""
    inner = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    inner.__kwdefaults__ = function.__kwdefaults__

    def handle(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        live = live_of_thread()
        if live is None:
            return inner(*args, **kwargs)
        held = live.before_call(function, args, kwargs)
        try:
            result = inner(*args, **kwargs)
        except BaseException as error:
            live.after_raising(held)
            hide_frames(error)
            raise
        return live.after_call(held, result)

    return handle


def standing_in(original: CodeType, handler: Callable[[Any, Any], Any]) -> CodeType:
    """Code that calls `handler`, with the free variables of `original`, whose place it can therefore take."""
    template = _stand_in.__code__
    constants = tuple(handler if each == _HANDLER else each for each in template.co_consts)
    return template.replace(co_consts=constants, co_freevars=original.co_freevars, co_name=STAND_IN)
