"""Detects a softmax over the first dimension of the output of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_wrapper.code_lines.softmax_lines import NAMES, softmax_of_call
from proxy_wrapper.events import GraphPattern
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.assigned_lines import AssignedLine

if TYPE_CHECKING:
    from types import CodeType

    from proxy_wrapper.intercept.calls.callers import Caller
    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.tracer import Tracer

OF_OUTPUT: Final = "softmax-of-output"


class OutputSoftmaxes:
    """Creates `GraphPattern` events from the code that calls outermost modules."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def look(self, caller: Caller, entry: ModuleEntry, location: int, thread: ThreadState) -> None:
        """Read the code that calls an outermost module."""
        line = softmax_of_call(caller.function, caller.line, caller.is_module)
        if line:
            tracer = self._tracer
            made = tracer.locator.line(AssignedLine(caller.body.code, line))
            event = GraphPattern(
                *(tracer.now_us(), tracer.step, entry.id, location, thread.number, thread.stage, OF_OUTPUT), made=made
            )
            tracer.broadcast(event, location, level=INFO, also=(made,))


def may_take_softmax(code: CodeType) -> bool:
    """Whether a function names a softmax."""
    return not NAMES.isdisjoint(code.co_names)
