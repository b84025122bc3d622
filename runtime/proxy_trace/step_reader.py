"""Follows the state of a model through the trace of one process, from optimizer step to optimizer step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy_trace.trace import TraceFile
    from proxy_wrapper.events import AnyEvent


class StepReader:
    """Where one process stands in its trace.

    Attributes:
        file: the trace.
        reading: the pass over it.
        number: by which differences tell it from those that it is compared with, such as the rank.
        tensors: what was defined so far, the latest definition by name.
        start: the statistics of each parameter and buffer when training began, or went on after it was made, by name.
        values: the latest ones.
        changed: the names that were given values since the step before.
        gradients: the gradients that the step found, by name; None for a parameter that had none.
        step: the step that ended last, or that the trace ended in.
        on_event: called with each event that is read.
        has_ended: whether the trace has been read to its end.
        end: how the process ended, as `RunEnd` says it; "" if the trace does not.
    """

    def __init__(self, file: TraceFile, number: int) -> None:
        self.file = file
        self.reading = file.read()
        self.on_event: Callable[[AnyEvent], None] = _ignore
        self.number = number
        self.tensors: dict[str, events.StateTensor] = {}
        self.start: dict[str, events.Statistics | None] = {}
        self.values: dict[str, events.Statistics | None] = {}
        self.changed: set[str] = set()
        self.gradients: dict[str, events.Statistics | None] = {}
        self.step = -1
        self.has_ended = False
        self.end = ""
        self._names: dict[int, str] = {}
        self._events = iter(self.reading)
        self._last_complete = -1
        self._not_started: set[str] = set()

    @property
    def bytes_read(self) -> int:
        """How far into the file this has come."""
        return self.reading.bytes_read

    @property
    def last_complete_step(self) -> int:
        """The last step that ended; -1 if none has."""
        return self._last_complete

    def advance(self) -> None:
        """Go on to the end of the next optimizer step, or of the trace.

        Raises:
            UnreadableFileError: if the file system refuses.
        """
        self.changed = set()
        self.gradients = {}
        on_event = self.on_event
        for event in self._events:
            on_event(event)
            if isinstance(event, events.Update):
                name = self._names.get(event.tensor, "")
                self.values[name] = event.statistics
                self.changed.add(name)
            elif isinstance(event, events.Gradient):
                self.gradients[self._names.get(event.tensor, "")] = event.statistics
            elif isinstance(event, events.StateTensor):
                self._define(event)
            elif isinstance(event, (events.Backward, events.OptimizerStep)):
                self._note_start()
            elif isinstance(event, events.OptimizerStepEnd):
                self.step = self._last_complete = event.step
                return
            elif isinstance(event, events.RunEnd):
                self.end = f"{event.reason} {event.error}".rstrip()
        self._note_start()
        self.has_ended = True

    def forget_values(self) -> None:
        """Take nothing that was read so far for what holds now: records are missing."""
        self.values.clear()

    def _note_start(self) -> None:
        """Training begins, or goes on: what new state is now, it was loaded with or initialised to."""
        if self._not_started:
            self.start.update((name, self.values.get(name)) for name in self._not_started)
            self._not_started.clear()

    def _define(self, event: events.StateTensor) -> None:
        before = self._names.get(event.id)
        if before is not None and before != event.name:  # A module found to be part of a larger one.
            self.tensors.pop(before, None)
            if before in self.values:
                self.values[event.name] = self.values.pop(before)
            if before in self.start:
                self.start[event.name] = self.start.pop(before)
            if before in self._not_started:
                self._not_started.remove(before)
                self._not_started.add(event.name)
        elif isinstance(event, events.OptimizerState) and event.statistics is None:
            pass  # Its values are in no record.
        elif event.name not in self.values:
            self.values[event.name] = event.statistics
        if before is None and not isinstance(event, events.OptimizerState):
            self._not_started.add(event.name)
        self._names[event.id] = event.name
        self.tensors[event.name] = event
        self.changed.add(event.name)


def _ignore(_: AnyEvent) -> None:
    """Nobody else wants to know."""


def read_together(readers: list[StepReader]) -> Iterator[tuple[int, list[StepReader], list[StepReader]]]:
    """Take several processes through their traces, side by side.

    Yields:
        For each step that ended in any: its number, the readers that stand at its end, and those that lack it
        though they go on later. A last time, with -1, when all are at the end of traces without a single step.
    """
    for reader in readers:
        reader.advance()
    if all(reader.has_ended for reader in readers):
        yield -1, readers, []
        return
    while going := [reader for reader in readers if not reader.has_ended]:
        step = min(reader.step for reader in going)
        here = [reader for reader in going if reader.step == step]
        yield step, here, [reader for reader in going if reader.step != step]
        for reader in here:
            reader.advance()
            while reader.step <= step and not reader.has_ended:  # Counted anew after a fork or a second tracer.
                reader.advance()
