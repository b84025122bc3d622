"""What a page draws of one process: its curves, the calls of one step, and events by line of the script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_trace.report.curves import Curves, Points, Room
from proxy_trace.report.step_strip import Strip, StripCollector
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_trace.reading.names import Names
    from proxy_trace.reading.report import Report
    from proxy_trace.reading.selection import GlobMatcher, StepRange
    from proxy_trace.reading.trace import TraceFile

NORM: Final = "norm"
MINIMUM: Final = "minimum"
MAXIMUM: Final = "maximum"
GRADIENT: Final = "gradient"
RATIO: Final = "ratio"
"""The norm of an update relative to the norm of the weight, if known exactly: for plain SGD."""

AT_LEAST: Final = "at least"
"""A lower bound of the same for other updates: from the change of norm, minimum and maximum."""

LOSS: Final = "loss"
RATE: Final = "rate"

START: Final = -1
"""The step of the initial value of a tensor."""

_MOST_CURVES: Final = 1 << 17
_MOST_LINES: Final = 16
"""The maximum number of curves of losses, and of learning rates."""

_MOST_MARKS: Final = 20_000
_REPORT_INTERVAL: Final = 1 << 14
_PLAIN_SGD: Final = {"momentum": 0, "weight_decay": 0, "nesterov": False, "dampening": 0}


class StateName(NamedTuple):
    """A parameter or buffer with curves."""

    name: str
    type: str
    is_buffer: bool


class Mark(NamedTuple):
    """An event at a line of the script, and its count."""

    file: str
    line: int
    function: str
    what: str
    times: int


class ProcessCurves(NamedTuple):
    """What a page draws of one process.

    Attributes:
        state: the points of each parameter and buffer, by its name and the kind of value.
        tensors: the tensors with these names.
        losses: the points of losses, by the place of the backward pass.
        rates: the points of learning rates, by optimizer and group.
        last_step: the last step in which something happened.
        strip: the calls of one step; None if there were none.
        marks: the events at lines of the script.
        left_out: the number of values of curves beyond the maximum.
    """

    state: dict[tuple[str, str], Points]
    tensors: dict[str, StateName]
    losses: dict[str, Points]
    rates: dict[str, Points]
    last_step: int
    strip: Strip | None
    marks: list[Mark]
    left_out: int


class CurvesTask(NamedTuple):
    """A file, and what to read from it.

    Attributes:
        file: the file.
        most_points: the total number of points of all parameter curves.
        steps: only these steps; None for all.
        is_chosen: only parameters and buffers with these names; None for all.
        step: the step whose calls are kept; None for one of the first steps.
    """

    file: TraceFile
    most_points: int
    steps: StepRange | None = None
    is_chosen: GlobMatcher | None = None
    step: int | None = None


def read_curves(task: CurvesTask, report: Report) -> ProcessCurves:
    """Read what a page draws of a process. Memory does not grow with the length of its trace."""
    reading = task.file.read()
    collector = CurvesCollector(task, reading.names)
    reported = 0
    for count, event in enumerate(reading, 1):
        collector.take(event)
        if not count % _REPORT_INTERVAL:
            report(reading.bytes_read - reported)
            reported = reading.bytes_read
    report(reading.bytes_read - reported)
    return collector.curves()


class _Group:
    """A group of an optimizer's parameters: its learning rate, and whether its updates are plain SGD."""

    def __init__(self) -> None:
        self.settings: dict[str, events.Setting] = {}
        self.rate: float | None = None
        self.is_plain_sgd = False

    def change(self, optimizer: str, settings: dict[str, events.Setting]) -> None:
        """Apply changed settings."""
        self.settings = {**self.settings, **settings}
        rate = self.settings.get("lr")
        self.rate = float(rate) if isinstance(rate, (int, float)) and not isinstance(rate, bool) else None
        # A fused step gets gradients that are still scaled for mixed precision.
        self.is_plain_sgd = optimizer == "SGD" and not self.settings.get("fused")
        self.is_plain_sgd &= all(self.settings.get(name, 1) == value for name, value in _PLAIN_SGD.items())


class CurvesCollector:
    """Collects what a page draws from the events of one file."""

    def __init__(self, task: CurvesTask, names: Names) -> None:
        """Start empty. `names` are the definitions of the file."""
        self._names = names
        self._steps = task.steps
        self._is_chosen = task.is_chosen
        self._state: Curves[tuple[int, str]] = Curves(Room(task.most_points), _MOST_CURVES)
        self._lines = Room(4 * _MOST_LINES * 1024)
        self._losses: Curves[str] = Curves(self._lines, _MOST_LINES)
        self._rates: Curves[tuple[int, int]] = Curves(self._lines, _MOST_LINES)
        self._strip = StripCollector(names, task.step)
        self._held: dict[int, events.Statistics | None] = {}
        self._gradients: dict[int, tuple[int, events.Number | None]] = {}
        self._groups: dict[tuple[int, int], _Group] = {}
        self._optimizers: dict[int, str] = {}
        self._group_of: dict[int, _Group] = {}
        self._marks: dict[tuple[int, str], int] = {}
        self._step = 0
        self._last_step = 0
        self._takers: dict[type[events.Event], Callable[[Any], None]] = {
            events.Module: self._module,
            events.Parameter: self._define,
            events.Buffer: self._define,
            events.Update: self._update,
            events.Gradient: self._gradient,
            events.Backward: self._backward,
            events.Optimizer: self._optimizer,
            events.OptimizerStep: self._optimizer_step,
            events.CallModule: self._call_module,
            events.CallFunction: self._call_function,
            events.CallMethod: self._call_function,
        }

    def take(self, event: events.AnyEvent) -> None:
        """Process the next event."""
        if isinstance(event, events.Happening):
            self._step = event.step
            if self._steps is not None and not self._steps.has(event.step):
                if isinstance(event, events.Update) and event.tensor in self._held:
                    self._held[event.tensor] = event.statistics
                elif isinstance(event, events.Optimizer):
                    self._optimizer(event)
                return
            self._last_step = max(self._last_step, event.step)
            if not self._strip.is_done:
                self._strip.take(event)
        taker = self._takers.get(type(event))
        if taker is not None:
            taker(event)

    def curves(self) -> ProcessCurves:
        """The curves, after all events. If two tensors had the same name, the later one counts."""
        tensors = [each for each in self._names.tensors.values() if not isinstance(each, events.OptimizerState)]
        state: dict[tuple[str, str], Points] = {}
        for (id_, kind), points in self._state.points().items():
            state[(self._names.tensor_name(id_), kind)] = points
        drawn = {name for name, _ in state}
        return ProcessCurves(
            state,
            {
                each.name: StateName(each.name, each.type, isinstance(each, events.Buffer))
                for each in tensors
                if each.name in drawn
            },
            self._losses.points(),
            self._named_rates(),
            self._last_step,
            self._strip.strip(),
            self._located_marks(),
            self._state.left_out + self._losses.left_out + self._rates.left_out,
        )

    # Parameters and buffers

    def _define(self, event: events.StateTensor) -> None:
        if event.id in self._held or not (self._is_chosen is None or self._is_chosen(event.name)):
            return
        self._held[event.id] = event.statistics
        if event.statistics is not None:
            start = self._step - 1
            if self._steps is None or self._steps.has(max(start, 0)):
                self._add_state(event.id, start, event.statistics)

    def _update(self, event: events.Update) -> None:
        id_, after = event.tensor, event.statistics
        if id_ not in self._held:
            return
        before, self._held[id_] = self._held[id_], after
        if after is None:
            return
        self._add_state(id_, event.step, after)
        if before is None or event.cause not in ("step", "unchanged"):
            return
        weight = before.norm
        if not isinstance(weight, float) or weight <= 0:
            return
        group = self._group_of.get(id_)
        if group is not None and group.is_plain_sgd and group.rate is not None:
            step, gradient = self._gradients.get(id_, (START, None))
            if step == event.step and isinstance(gradient, float):
                self._state.add((id_, RATIO), event.step, group.rate * gradient / weight)
                return
        moved = _moved(before, after)
        if moved is not None:
            self._state.add((id_, AT_LEAST), event.step, moved / weight)

    def _add_state(self, id_: int, step: int, statistics: events.Statistics) -> None:
        add = self._state.add
        if statistics.norm is not None:
            add((id_, NORM), step, float(statistics.norm))
        if statistics.minimum is not None:
            add((id_, MINIMUM), step, float(statistics.minimum))
        if statistics.maximum is not None:
            add((id_, MAXIMUM), step, float(statistics.maximum))

    def _gradient(self, event: events.Gradient) -> None:
        statistics = event.statistics
        if statistics is None or statistics.norm is None or event.tensor not in self._held:
            return
        self._gradients[event.tensor] = (event.step, statistics.norm)
        self._state.add((event.tensor, GRADIENT), event.step, float(statistics.norm))

    # Losses and learning rates

    def _backward(self, event: events.Backward) -> None:
        self._mark(event.location, event.function)
        if event.loss_value is not None:
            self._losses.add(self._names.place(event.location) or "unknown", event.step, float(event.loss_value))

    def _optimizer(self, event: events.Optimizer) -> None:
        if event.id not in self._optimizers and len(self._optimizers) >= _MOST_LINES:
            return
        self._optimizers[event.id] = event.optimizer
        for index, changed in zip(event.indices, event.groups, strict=False):
            key = (event.id, index)
            if key not in self._groups:
                if len(self._groups) >= _MOST_MARKS:
                    return
                self._groups[key] = _Group()
            group = self._groups[key]
            group.change(event.optimizer, changed.settings)
            for id_ in changed.tensors:
                self._group_of[id_] = group

    def _optimizer_step(self, event: events.OptimizerStep) -> None:
        self._mark(event.location, f"{event.optimizer}.step")
        for index in range(_MOST_LINES):
            group = self._groups.get((event.optimizer_id, index))
            if group is None:
                return
            if group.rate is not None:
                self._rates.add((event.optimizer_id, index), event.step, group.rate)

    def _named_rates(self) -> dict[str, Points]:
        """The learning rates by optimizer. Groups whose rates were always equal appear once."""
        found: dict[str, Points] = {}
        by_optimizer: dict[int, list[tuple[int, Points]]] = {}
        for (id_, index), points in self._rates.points().items():
            by_optimizer.setdefault(id_, []).append((index, points))
        for id_, groups in by_optimizer.items():
            name = self._optimizers.get(id_, "")
            if sum(each == name for each in self._optimizers.values()) > 1:
                name = f"{name} {id_}"
            if all(points == groups[0][1] for _, points in groups):
                found[name] = groups[0][1]
            else:
                found.update({f"{name}, group {index}": points for index, points in groups})
        return found

    # Lines of the script

    def _module(self, event: events.Module) -> None:
        if not event.parent and event.location:
            self._mark(event.location, f"{event.name} is traced from here on")

    def _call_module(self, event: events.CallModule) -> None:
        if event.location:
            self._mark(event.location, self._names.module_name(event.module))

    def _call_function(self, event: events.CallFunction) -> None:
        if event.location:
            self._mark(event.location, event.target)

    def _mark(self, location: int, what: str) -> None:
        key = (location, what)
        if key in self._marks or (location and len(self._marks) < _MOST_MARKS):
            self._marks[key] = self._marks.get(key, 0) + 1

    def _located_marks(self) -> list[Mark]:
        found = []
        for (id_, what), count in self._marks.items():
            location = self._names.locations.get(id_)
            if location is not None:
                found.append(Mark(location.file, location.line, location.function, what, count))
        return found


def _moved(before: events.Statistics, after: events.Statistics) -> float | None:
    """A lower bound of the norm of an update: no statistic changes by more than it.

    It is 0 if the fingerprints are equal. Otherwise, rounding may make it slightly too large.
    """
    if after.bits is not None and before.bits == after.bits:
        return 0.0
    moved = [
        abs(other - one)
        for one, other in (
            (before.norm, after.norm),
            (before.minimum, after.minimum),
            (before.maximum, after.maximum),
        )
        if isinstance(one, float) and isinstance(other, float)
    ]
    return max(moved) if moved else None
