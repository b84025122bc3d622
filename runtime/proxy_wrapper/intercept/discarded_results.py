"""Sees tensors that the program computes and drops, in the code that trains.

The code of each function is read once: of those that lead to a backward pass, of what they call by name, and of the
`forward` of each module that is proxied then. Nothing is put in the place of anything.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.events import DiscardedResult
from proxy_wrapper.levels import INFO
from proxy_wrapper.places.called_functions import Body, reachable
from proxy_wrapper.places.discarded_calls import discarded_calls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

    from proxy_wrapper.tracer import Tracer

_MOST_PLACES: Final = 100
_MOST_CODES: Final = 10000


class DiscardedResults:
    """Makes `DiscardedResult` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._places: set[int] = set()
        # By id; the codes are kept, so that ids stay true.
        self._codes: dict[int, CodeType] = {}

    def look(self, location: int) -> None:
        """Look at the code that leads to a backward pass, the first time that one begins at a location."""
        if location in self._places or len(self._places) >= _MOST_PLACES:
            return
        self._places.add(location)
        for body in self._bodies():
            for found in discarded_calls(body):
                self._emit(found.function, self._tracer.locator.line(found.at))

    def _bodies(self) -> Iterator[Body]:
        """The functions of the program that are in use, each once."""
        tracer = self._tracer
        is_user_code = tracer.locator.is_user_code
        frame = tracer.locator.user_frame(3)
        while frame is not None:
            if is_user_code(frame.f_code):
                yield from self._new(Body(frame.f_code, frame.f_globals))
            frame = frame.f_back
        for entry in list(tracer.registry):
            module = entry.module()
            function: Any = getattr(type(module), "forward", None)
            if type(function) is FunctionType and is_user_code(function.__code__) and entry.level <= INFO:
                code = function.__code__
                known = {code.co_varnames[0]: module} if code.co_argcount else {}
                yield from self._new(Body(code, function.__globals__, known))

    def _new(self, body: Body) -> Iterator[Body]:
        """A function and those that it leads to, which have not been read yet."""
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
