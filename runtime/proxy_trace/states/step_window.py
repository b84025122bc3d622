"""Reads some steps of several traces: the values and gradients of each process, with equal ones stored once.

Memory thus grows with the differences, not with the number of processes: most parameters have a single history, shared
by all processes. The results of two groups of processes can be merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from proxy_trace.states.shared_states import SharedStates
from proxy_trace.states.state_reader import NO_STEP, Held, Part, StateReader
from proxy_trace.tensors.same_values import has_bits

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping
    from typing import TypeAlias

    from proxy_trace.reading.report import Report
    from proxy_trace.states.state_reader import Found, Standing
    from proxy_wrapper.events import Statistics

K = TypeVar("K", bound="Hashable")

Members: TypeAlias = "dict[K, int]"
"""Values, each with its set of processes: an integer with one bit per process, the first being the lowest."""


class LastHeld(NamedTuple):
    """The value under a name at the end of a trace.

    Attributes:
        part: its identity.
        since: the step at which it was set.
        has_bits: whether it has a fingerprint.
        start: the statistics at the start of training; None if the name had none.
    """

    part: Part
    since: int
    has_bits: bool
    start: tuple[Statistics | None, ...]


class Window(NamedTuple):
    """The values and gradients of some processes in some steps.

    Attributes:
        steps: the steps that ended; only `NO_STEP` in a trace without steps.
        held: by name, the values before these steps, and after each step that changed them.
        gradients: the gradients, by name.
        last_held: by name, the final values of processes whose traces end there.
    """

    steps: Members[tuple[int, ...]]
    held: dict[str, Members[tuple[Held, ...]]]
    gradients: dict[str, Members[tuple[Found, ...]]]
    last_held: dict[str, Members[LastHeld]]

    @classmethod
    def merged(cls, windows: Iterable[Window]) -> Window:
        """The joint window of several groups of processes, for the same steps."""
        steps: Members[tuple[int, ...]] = {}
        tables: Any = ({}, {}, {})
        for window in windows:
            _unite(steps, window.steps)
            of_window: Any = window[1:]
            for table, of_names in zip(tables, of_window, strict=True):
                for name, members in of_names.items():
                    _unite(table.setdefault(name, {}), members)
        return cls(steps, *tables)


def _unite(members: Members[K], others: Members[K]) -> None:
    for key, which in others.items():
        members[key] = members.get(key, 0) | which


class Group(NamedTuple):
    """Processes that are read one after another, with their positions."""

    standings: list[Standing]
    states: SharedStates


class WindowTask(NamedTuple):
    """What to read of a group: the steps before `until`, for the chosen names.

    If one process has more than `most` entries, reading stops.
    """

    group: Group
    until: int
    most: int
    is_chosen: Callable[[str], bool] | None
    with_gradients: bool


class WindowRead(NamedTuple):
    """The result of reading; if reading stopped, no window, and the step before which there are few enough entries.

    Attributes:
        window: the values and gradients.
        group: the positions of the processes that have not ended.
        ended: the positions of the others.
        entries: the number of entries of the process with the most.
        give_up: the step not to be read.
    """

    window: Window | None
    group: Group
    ended: list[Standing]
    entries: int
    give_up: int = NO_STEP


def read_window(task: WindowTask, report: Report) -> WindowRead:
    """Read some steps of each process of a group."""
    group = task.group
    states = SharedStates()
    standings: list[Standing] = []
    ended: list[Standing] = []
    made = _WindowMaker(task)
    entries = 0
    for place, standing in enumerate(group.standings):
        reader = StateReader(standing, group.states.state(place), with_gradients=task.with_gradients)
        if not reader.read(task.until, task.most, report):
            return WindowRead(None, group, [], reader.entries, reader.steps[-1])
        entries = max(entries, reader.entries)
        now = reader.standing
        made.add(reader, now.members, has_ended=now.has_ended)
        if now.has_ended:
            ended.append(now)
        else:
            standings.append(now)
            states.add(reader.state)
    return WindowRead(made.window, Group(standings, states), ended, entries)


class _WindowMaker:
    """Builds a window from the results of readers."""

    def __init__(self, task: WindowTask) -> None:
        self.window = Window({}, {}, {}, {})
        self._is_chosen = task.is_chosen

    def add(self, reader: StateReader, which: int, *, has_ended: bool) -> None:
        """Add the results of a reader, for the set of processes `which`."""
        window, histories = self.window, reader.histories
        steps = tuple(reader.steps)
        window.steps[steps] = window.steps.get(steps, 0) | which
        for name, now in reader.state.held.items():
            if name not in histories:
                self._note(window.held, name, (now,), which)
        for name, history in histories.items():
            self._note(window.held, name, tuple(history), which)
        for name, found in reader.gradients.items():
            self._note(window.gradients, name, tuple(found), which)
        if has_ended:
            start = reader.state.start
            for name, (_, since, part, statistics) in reader.held_now().items():
                if part is None:
                    continue
                began = (start[name],) if name in start else ()
                self._note(window.last_held, name, LastHeld(part, since, has_bits(statistics), began), which)

    def _note(self, table: Mapping[str, Members[Any]], name: str, key: Any, which: int) -> None:
        if self._is_chosen is None or self._is_chosen(name):
            members = table.setdefault(name, {})  # type: ignore[attr-defined]
            members[key] = members.get(key, 0) | which
