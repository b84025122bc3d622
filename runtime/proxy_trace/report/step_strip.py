"""Collects the calls of one step, for a strip that shows their order and nesting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_trace.reading.names import Names

_MOST_CALLS: Final = 4000
_SETTLED: Final = 3
"""The step kept by default, counted from 1. During the first ones, memory is allocated and code is compiled."""

MODULE: Final = "module"
FUNCTION: Final = "function"
BACKWARD: Final = "backward"
STEP: Final = "step"


class StripCall(NamedTuple):
    """A call.

    Attributes:
        kind: "module", "function", "backward" or "step".
        name: the module, the function, or the optimizer's class.
        type: the class of a module; "" for other calls.
        place: the line of the call, as "file:line".
        stage: "train", "eval" or the program's name.
        depth: the number of enclosing calls.
        start_us: its start, in microseconds since the start of the process's run.
        duration_us: its duration; 0 for functions, whose duration is not recorded, and -1 if it did not end.
        raised: whether it ended with an exception.
    """

    kind: str
    name: str
    type: str
    place: str
    stage: str
    depth: int
    start_us: int
    duration_us: int
    raised: bool


class Strip(NamedTuple):
    """The calls of a step, by start; `left_out` counts those beyond the maximum."""

    step: int
    calls: list[StripCall]
    left_out: int


class _Open(NamedTuple):
    event: events.CallModule | events.Backward | events.OptimizerStep
    position: int


class StripCollector:
    """Collects the calls of one step on the first thread that calls anything."""

    def __init__(self, names: Names, wanted: int | None = None) -> None:
        """Set up.

        Args:
            names: the definitions of the ids.
            wanted: the step to keep; if None, the third one recorded, or the last if there are fewer.
        """
        self._names = names
        self._wanted = wanted
        self._kept: Strip | None = None
        self._complete = 0
        self._step = -1
        self._thread: int | None = None
        self._calls: list[StripCall] = []
        self._left_out = 0
        self._open: list[_Open] = []
        self.is_done = False

    def take(self, event: events.Happening) -> None:
        """Process a call, its end, or the end of an optimizer's step. Other events are ignored."""
        if self.is_done or (self._wanted is not None and event.step < self._wanted):
            return
        taker = _TAKERS.get(type(event))
        if taker is None:
            return
        if self._thread is None:
            self._thread = event.thread
        if event.thread != self._thread:
            return
        if event.step != self._step:
            self._begin(event.step)
            if self.is_done:
                return
        taker(self, event)

    def strip(self) -> Strip | None:
        """The calls of the step; None if nothing was called."""
        if not self.is_done and self._calls and (self._kept is None or self._wanted is not None):
            return Strip(self._step, self._calls, self._left_out)
        return self._kept

    def call_module(self, event: events.CallModule) -> None:
        """A module is called."""
        module = self._names.modules.get(event.module)
        self._begin_call(event, MODULE, self._names.module_name(event.module), module.type if module else "")

    def return_module(self, event: events.ReturnModule) -> None:
        """A call of a module ended."""
        self._end_call(events.CallModule, event.module, event.duration_us, raised=event.raised)

    def call_function(self, event: events.CallFunction) -> None:
        """A function of torch was called."""
        self._add(event, FUNCTION, event.target, "", 0, raised=event.raised)

    def backward(self, event: events.Backward) -> None:
        """A backward pass begins."""
        self._begin_call(event, BACKWARD, event.function, "")

    def backward_end(self, event: events.BackwardEnd) -> None:
        """A backward pass ended."""
        self._end_call(events.Backward, None, event.duration_us, raised=event.raised)

    def optimizer_step(self, event: events.OptimizerStep) -> None:
        """An optimizer's step begins."""
        self._begin_call(event, STEP, f"{event.optimizer}.step", "")

    def optimizer_step_end(self, event: events.OptimizerStepEnd) -> None:
        """An optimizer's step ended, and with it a step of the run."""
        self._end_call(events.OptimizerStep, None, event.duration_us, raised=False)
        self._complete += 1
        self._kept = Strip(self._step, self._calls, self._left_out)
        if self._wanted is not None or self._complete >= _SETTLED:
            self.is_done = True

    def _begin(self, step: int) -> None:
        if self._wanted is not None and self._step >= 0:
            self.is_done = True  # The wanted step is over, without an end event.
            self._kept = self._kept or Strip(self._step, self._calls, self._left_out)
            return
        self._step = step
        self._calls, self._open, self._left_out = [], [], 0

    def _begin_call(
        self, event: events.CallModule | events.Backward | events.OptimizerStep, kind: str, name: str, type_: str
    ) -> None:
        if self._add(event, kind, name, type_, -1, raised=False):
            self._open.append(_Open(event, len(self._calls) - 1))

    def _add(
        self, event: events.Happening, kind: str, name: str, type_: str, duration_us: int, *, raised: bool
    ) -> bool:
        if len(self._calls) >= _MOST_CALLS:
            self._left_out += 1
            return False
        place = self._names.place(event.location)
        depth, time_us = len(self._open), event.time_us
        self._calls.append(StripCall(kind, name, type_, place, event.stage, depth, time_us, duration_us, raised))
        return True

    def _end_call(self, event_class: type, module: int | None, duration_us: int, *, raised: bool) -> None:
        """End the innermost such call. Calls still open inside it were left by an exception."""
        for depth in range(len(self._open) - 1, -1, -1):
            event, position = self._open[depth]
            if type(event) is event_class and (module is None or event.module == module):
                self._calls[position] = self._calls[position]._replace(duration_us=duration_us, raised=raised)
                del self._open[depth:]
                return


_TAKERS: Final[dict[type, Callable[[StripCollector, Any], None]]] = {
    events.CallModule: StripCollector.call_module,
    events.ReturnModule: StripCollector.return_module,
    events.CallFunction: StripCollector.call_function,
    events.CallMethod: StripCollector.call_function,
    events.Backward: StripCollector.backward,
    events.BackwardEnd: StripCollector.backward_end,
    events.OptimizerStep: StripCollector.optimizer_step,
    events.OptimizerStepEnd: StripCollector.optimizer_step_end,
}
