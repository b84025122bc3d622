"""Finds where two runs diverge: the first flow step that differs, and what led to it."""

from __future__ import annotations

from collections import deque
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_trace.errors import NoFlowStepsError
from proxy_trace.events.show import details_of
from proxy_trace.flow.flow_steps import flow_steps, has_flow_steps
from proxy_trace.reading.names import Names
from proxy_trace.reading.selection import kind_of
from proxy_trace.tensors.origins import Origins
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy_trace.flow.flow_steps import FlowSighting
    from proxy_trace.reading.trace import Trace, TraceFile
    from proxy_wrapper.events import AnyEvent

_LED: Final = 6
"""The most records before a step that are shown."""

_TRAIL: Final = 12

_LEADING: Final = (
    events.CallModule, events.ReturnModule, events.CallFunction, events.GetAttr, events.ReadValue, events.Update,
    events.NonFinite, events.Problem,
)  # fmt: skip


class LedThere(NamedTuple):
    """A record before a step: its kind, its details, and the place."""

    kind: str
    details: str
    place: str


class Side(NamedTuple):
    """A step in one of two runs.

    Attributes:
        construct: the construct of the condition or loop.
        text: its text.
        value: the outcome of a condition.
        iterations: the iterations of a loop.
        place: file and line.
        function: the enclosing function.
        module: the module that was being called.
        optimizer_step: the number of optimizer steps that had ended.
        made_from: the calls that computed the tested tensor, the last first; only known at DEBUG.
        led_there: the last records since the previous flow step.
    """

    construct: str
    text: str
    value: bool | None
    iterations: int | None
    place: str
    function: str
    module: str
    optimizer_step: int
    made_from: list[str]
    led_there: list[LedThere]


class Parting(NamedTuple):
    """The first flow step at which two threads diverge; a side is None if its run had ended.

    Attributes:
        rank: the rank of both processes.
        thread: 0 for the main threads, else their number by their first steps.
        same: the number of equal flow steps before.
        first: the step in one run.
        second: the step in the other.
    """

    rank: int
    thread: int
    same: int
    first: Side | None
    second: Side | None


class FlowComparison(NamedTuple):
    """The result of comparing two runs: the number of equal flow steps, and where each diverging thread diverges."""

    steps: int
    partings: list[Parting]

    @property
    def agrees(self) -> bool:
        """Whether both runs took the same branches throughout."""
        return not self.partings


def compare_flow(
    first: Trace, second: Trace, is_chosen: Callable[[FlowSighting, Names], bool] | None = None
) -> FlowComparison:
    """Compare the flow steps of two runs in order, rank by rank and thread by thread.

    Steps are the same if their construct, text, function and outcome are; lines may differ, as in two versions of a
    script.

    Args:
        first: a run.
        second: another.
        is_chosen: which steps to compare; all without.

    Raises:
        NoFlowStepsError: if one has none.
        TraceError: if the file system refuses.
    """
    for trace in (first, second):
        if not any(has_flow_steps(file.read()) for file in trace.files):
            raise NoFlowStepsError(trace.path)
    compared, partings = 0, []
    for rank, one, other in _pairs(first, second):
        threads = [_threads(each) for each in (one, other)]
        names = [each.names() if each is not None else Names() for each in (one, other)]
        for number, (thread, other_thread) in enumerate(zip_longest(*threads)):
            sides = (_Side(one, names[0], thread, is_chosen), _Side(other, names[1], other_thread, is_chosen))
            same, parting = _compare(rank, number, *sides)
            compared += same
            if parting is not None:
                partings.append(parting)
    return FlowComparison(compared, partings)


def _pairs(first: Trace, second: Trace) -> Iterator[tuple[int, TraceFile | None, TraceFile | None]]:
    """The files of both runs by rank, and within one in the order in which their processes began.

    None stands for one that a run does not have.
    """
    by_rank: list[dict[tuple[int, int], TraceFile]] = []
    for trace in (first, second):
        files: dict[tuple[int, int], TraceFile] = {}
        for file in sorted(trace.files, key=lambda file: file.started_us()):
            number = 0
            while (file.run.rank, number) in files:
                number += 1
            files[file.run.rank, number] = file
        by_rank.append(files)
    for key in sorted(by_rank[0].keys() | by_rank[1].keys()):
        yield key[0], by_rank[0].get(key), by_rank[1].get(key)


def _threads(file: TraceFile | None) -> list[int]:
    """The threads that have flow steps: the main one, then the others by their first."""
    if file is None:
        return []
    found = dict.fromkeys(event.thread for event in file.read() if type(event) is events.FlowStep)
    return [0, *(thread for thread in found if thread)]


def _compare(rank: int, thread: int, one: _Side, other: _Side) -> tuple[int, Parting | None]:
    same = 0
    for first, second in zip_longest(one.steps(), other.steps()):
        if first is None or second is None or _outcome(first) != _outcome(second):
            sides = (one.tell(first) if first else None, other.tell(second) if second else None)
            return same, Parting(rank, thread, same, *sides)
        same += 1
    return same, None


def _outcome(seen: FlowSighting) -> tuple[object, ...]:
    step = seen.step
    return step.construct, seen.text, step.function, step.value, step.iterations


class _Side:
    """Goes through one thread of a file, and keeps what was recorded last."""

    def __init__(
        self,
        file: TraceFile | None,
        names: Names,
        thread: int | None,
        is_chosen: Callable[[FlowSighting, Names], bool] | None,
    ) -> None:
        self._file = file
        self._names = names
        self._thread = thread
        self._is_chosen = is_chosen
        self._recent: deque[AnyEvent] = deque(maxlen=_LED)
        self._origins = Origins()
        self._asked = 0

    def steps(self) -> Iterator[FlowSighting]:
        if self._thread is None or self._file is None:
            return
        for seen in flow_steps(self._noted(self._file), self._names):
            if self._is_chosen is None or self._is_chosen(seen, self._names):
                yield seen
            self._recent.clear()
            self._asked = 0

    def _noted(self, file: TraceFile) -> Iterator[AnyEvent]:
        for event in file.read():
            if isinstance(event, events.Happening) and event.thread == self._thread:
                if isinstance(event, _LEADING):
                    self._recent.append(event)
                    self._note(event)
                yield event

    def _note(self, event: AnyEvent) -> None:
        if isinstance(event, events.CallFunction):
            self._origins.note_call(event.target, event.input_ids, event.output_ids)
        elif isinstance(event, events.ReadValue):
            self._asked = next(iter(event.input_ids), 0)

    def tell(self, seen: FlowSighting) -> Side:
        """The step with what is known of how it came about."""
        event, step = seen.event, seen.step
        names = self._names
        led = [LedThere(kind_of(each), details_of(each, names), _place_of(each, names)) for each in self._recent]
        return Side(
            step.construct,
            seen.text,
            step.value,
            step.iterations,
            f"{step.file}:{step.line}",
            step.function,
            names.module_name(event.module),
            event.step,
            self._origins.trail(self._asked, _TRAIL) if self._asked else [],
            led,
        )


def _place_of(event: AnyEvent, names: Names) -> str:
    return names.place(event.location) if isinstance(event, events.Happening) else ""
