"""Reads some steps of several traces: what each process held and found in them, those that agree told once.

So what is found takes memory by what differs, not by how many processes there are: of most parameters there is a single
history, and all processes have it. What two groups of processes have found merges into what both together have.
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
"""Which processes something is so of: the bits of a number, that of the first process being the lowest."""


class LastHeld(NamedTuple):
    """What a process held under a name at the end of its trace.

    Attributes:
        part: what it was.
        since: the step in which it was given the values that it had.
        has_bits: whether these have a fingerprint.
        start: the statistics when training began; nothing if the name had none to start from.
    """

    part: Part
    since: int
    has_bits: bool
    start: tuple[Statistics | None, ...]


class Window(NamedTuple):
    """What some processes have held and found in some steps.

    Attributes:
        steps: which steps ended; `NO_STEP` alone in a trace that has none.
        held: by name, what was held before these steps, and from each on in which that changed.
        gradients: by name, those found.
        last_held: by name, what those held whose traces end there.
    """

    steps: Members[tuple[int, ...]]
    held: dict[str, Members[tuple[Held, ...]]]
    gradients: dict[str, Members[tuple[Found, ...]]]
    last_held: dict[str, Members[LastHeld]]

    @classmethod
    def merged(cls, windows: Iterable[Window]) -> Window:
        """What all the processes of several windows of the same steps have held and found."""
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
    """Processes that are read one after another, as far as they have been read."""

    standings: list[Standing]
    states: SharedStates


class WindowTask(NamedTuple):
    """What is to be read of a group: the steps before `until`, of the names that are chosen.

    If they have more entries than `most` in one process, reading them is given up.
    """

    group: Group
    until: int
    most: int
    is_chosen: Callable[[str], bool] | None
    with_gradients: bool


class WindowRead(NamedTuple):
    """What was read; or, if that was given up, no window, and the step before which there would have been less.

    Attributes:
        window: what was held and found.
        group: where the processes stand, those aside that have ended.
        ended: where those ended.
        entries: how many entries there were, in the process that had most.
        give_up: the step that is not to be read.
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
    """Makes a window of what readers have read."""

    def __init__(self, task: WindowTask) -> None:
        self.window = Window({}, {}, {}, {})
        self._is_chosen = task.is_chosen

    def add(self, reader: StateReader, which: int, *, has_ended: bool) -> None:
        """Add what a reader has read, of the processes that say so."""
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
