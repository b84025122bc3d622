"""Summarizes a run: mean norms of parameters, gradients, buffers and outputs in spans of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy_trace.errors import UnreadableFileError
from proxy_trace.reading.bounded_lines import BoundedLines, open_regular
from proxy_trace.reading.trace import NO_RECORD
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_trace.reading.report import Report
    from proxy_trace.reading.trace import TraceFile
    from proxy_wrapper.events import AnyEvent, Setting, Statistics

_MOST_QUANTITIES: Final = 1 << 15
_REPORT_INTERVAL: Final = 1 << 15

_STEP_ENDS: Final = b'"optimizer_step_end"'


class Quantity(NamedTuple):
    """A series of norms: `kind` is "parameter", "buffer", "gradient" or "output"; `name` is the tensor or module."""

    rank: int
    kind: str
    name: str


class Course(NamedTuple):
    """The summary of a file.

    Attributes:
        means: for each quantity, the mean norm in each span; None for a span without norms, or with one that is not
            finite.
        non_finite: quantities that were not finite, with the first such step.
        settings: the first values of torch's settings.
        is_cut: whether there are more quantities than can be kept.
    """

    means: dict[Quantity, list[float | None]]
    non_finite: dict[Quantity, int]
    settings: dict[str, Setting]
    is_cut: bool


class Task(NamedTuple):
    """A file to read: `spans` spans of `width` steps, for the chosen names."""

    file: TraceFile
    spans: int
    width: int
    is_chosen: Callable[[str], bool] | None


def count_steps(file: TraceFile, report: Report) -> int:
    """The number of steps a run has completed: one more than the last completed step. Reads the whole file.

    Raises:
        UnreadableFileError: if the file cannot be read.
    """
    last = -1
    decode = msgspec.json.Decoder(events.OptimizerStepEnd).decode
    try:
        with open_regular(file.path) as opened:
            lines = BoundedLines(opened)
            for line in lines:
                if _STEP_ENDS in line:
                    try:
                        last = max(last, decode(line).step)
                    except NO_RECORD:
                        continue
    except OSError as error:
        raise UnreadableFileError(file.path, error) from error
    report(lines.bytes_read)
    return last + 1


def collect(task: Task, report: Report) -> Course:
    """Read a file once. Memory grows with the model, not with the length of the run.

    Raises:
        UnreadableFileError: if the file cannot be read.
    """
    collector = _Collector(task)
    reading = task.file.read()
    reported = 0
    for number, event in enumerate(reading):
        collector.note(event)
        if number % _REPORT_INTERVAL == 0:
            report(reading.bytes_read - reported)
            reported = reading.bytes_read
    names = reading.names
    means: dict[Quantity, list[float | None]] = {}
    non_finite: dict[Quantity, int] = {}
    for (group, id_), sums in collector.sums.items():
        name = names.module_name(id_) if group == "output" else names.tensor_name(id_)
        kind = group
        if group == "update":
            kind = "buffer" if isinstance(names.tensors.get(id_), events.Buffer) else "parameter"
        if task.is_chosen is not None and not task.is_chosen(name):
            continue
        quantity = Quantity(task.file.run.rank, kind, name)
        means[quantity] = [total / count if count > 0 else None for total, count in sums]
        if (group, id_) in collector.non_finite:
            non_finite[quantity] = collector.non_finite[group, id_]
    return Course(means, non_finite, collector.settings, collector.is_cut)


class _Collector:
    """Sums norms."""

    def __init__(self, task: Task) -> None:
        self.sums: dict[tuple[str, int], list[tuple[float, int]]] = {}
        self.non_finite: dict[tuple[str, int], int] = {}
        self.settings: dict[str, Setting] = {}
        self.is_cut = False
        self._spans = task.spans
        self._width = task.width

    def note(self, event: AnyEvent) -> None:
        """Add the norms in an event."""
        if isinstance(event, events.Update):
            self._add("update", event.tensor, event.step, (event.statistics,))
        elif isinstance(event, events.Gradient):
            self._add("gradient", event.tensor, event.step, (event.statistics,))
        elif isinstance(event, events.ReturnModule):
            if event.statistics is not None:
                self._add("output", event.module, event.step, event.statistics)
        elif isinstance(event, events.StateTensor) and not isinstance(event, events.OptimizerState):
            if ("update", event.id) not in self.sums:  # A tensor that never changes has this value in each span.
                for span in range(self._spans):
                    self._add("update", event.id, span * self._width, (event.statistics,))
        elif isinstance(event, events.Configuration):
            for name, value in event.settings.items():
                self.settings.setdefault(name, value)

    def _add(self, kind: str, id_: int, step: int, statistics: Sequence[Statistics | None]) -> None:
        span = step // self._width
        if span >= self._spans:
            return
        sums = self.sums.get((kind, id_))
        if sums is None:
            if len(self.sums) >= _MOST_QUANTITIES:
                self.is_cut = True
                return
            sums = self.sums[kind, id_] = [(0.0, 0)] * self._spans
        for each in statistics:
            if each is None:
                continue
            total, count = sums[span]
            if isinstance(each.norm, (int, float)) and not each.nonfinite:
                if count >= 0:
                    sums[span] = (total + each.norm, count + 1)
            else:
                sums[span] = (0.0, -1)
                self.non_finite.setdefault((kind, id_), step)
