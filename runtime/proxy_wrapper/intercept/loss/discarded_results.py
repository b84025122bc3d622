"""Finds tensors that training code computes and discards.

Nothing is replaced. Each function is read once: the functions on the stack of a backward pass, the functions that
they call by name, and the `forward` of each proxied module.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.code_lines.discarded_calls import discarded_calls
from proxy_wrapper.events import DiscardedResult
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.called_functions import Body, body_at, reachable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

    from proxy_wrapper.tracer import Tracer

_MOST_PLACES: Final = 100
_MOST_CODES: Final = 10000


class DiscardedResults:
    """Creates `DiscardedResult` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._places: set[int] = set()
        # By id. The codes are kept so that their ids stay unique.
        self._codes: dict[int, CodeType] = {}

    def look(self, location: int) -> None:
        """Read the code that leads to a backward pass, the first time that one begins at a location."""
        if location in self._places or len(self._places) >= _MOST_PLACES:
            return
        self._places.add(location)
        for body in self._bodies():
            for found in discarded_calls(body):
                self._emit(found.function, self._tracer.locator.line(found.at))

    def _bodies(self) -> Iterator[Body]:
        """The functions of the program that are in use and not yet read."""
        tracer = self._tracer
        is_user_code = tracer.locator.is_user_code
        frame = tracer.locator.user_frame(3)
        while frame is not None:
            if is_user_code(frame.f_code):
                yield from self._new(body_at(frame))
            frame = frame.f_back
        for entry in list(tracer.registry):
            module = entry.module()
            function: Any = getattr(type(module), "forward", None)
            if type(function) is FunctionType and is_user_code(function.__code__) and entry.level <= INFO:
                code = function.__code__
                known = {code.co_varnames[0]: module} if code.co_argcount else {}
                yield from self._new(Body(code, function.__globals__, known))

    def _new(self, body: Body) -> Iterator[Body]:
        """A function and the functions it calls, as far as they have not been read yet."""
        if id(body.code) in self._codes:
            return
        for called in reachable(body, self._tracer.locator.is_user_code):
            code = called.body.code
            if id(code) not in self._codes and len(self._codes) < _MOST_CODES:
                self._codes[id(code)] = code
                yield called.body

    def _emit(self, function: str, made: int) -> None:
        if not made:
            return
        tracer = self._tracer
        thread = tracer.thread
        event = DiscardedResult(tracer.now_us(), tracer.step, 0, 0, thread.number, thread.stage, function, made)
        tracer.broadcast(event, 0, level=INFO, also=(made,))
