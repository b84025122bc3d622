"""Detects a softmax over the first dimension of the output of a model. The code of each call is read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_wrapper.code_lines.softmax_lines import NAMES, softmax_of_call
from proxy_wrapper.events import GraphPattern
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.called_functions import Body
from proxy_wrapper.program_code.frame_variables import values_of
from proxy_wrapper.program_code.outermost_calls import value_of_name

if TYPE_CHECKING:
    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.tracer import Tracer

OF_OUTPUT: Final = "softmax-of-output"

_MOST_PLACES: Final = 1000


class OutputSoftmaxes:
    """Creates `GraphPattern` events from the code that calls outermost modules."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._places: set[int] = set()

    def look(self, entry: ModuleEntry, location: int, thread: ThreadState) -> None:
        """Read the code that calls an outermost module, at the first call at each location."""
        if location in self._places or len(self._places) >= _MOST_PLACES:
            return
        self._places.add(location)
        tracer = self._tracer
        frame = tracer.locator.user_frame(is_ending=True)
        if frame is None or NAMES.isdisjoint(frame.f_code.co_names):
            return
        function, module = tracer.functions.find_any(frame.f_code), entry.module()
        if function is None or module is None:
            return
        body = Body(frame.f_code, frame.f_globals, values_of(frame))
        line = softmax_of_call(function, frame.f_lineno, lambda each: value_of_name(each, body) is module)
        if line:
            made = tracer.locator.line(AssignedLine(frame.f_code, line))
            event = GraphPattern(
                *(tracer.now_us(), tracer.step, entry.id, location, thread.number, thread.stage, OF_OUTPUT), made=made
            )
            tracer.broadcast(event, location, level=INFO, also=(made,))
