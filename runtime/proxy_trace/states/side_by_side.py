"""Steps through several traces side by side, and compares what they should have in common."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_trace.states.member_differences import MemberDifferences
from proxy_trace.states.shared_states import SharedStates
from proxy_trace.states.state_reader import NO_STEP, Standing, State
from proxy_trace.states.step_window import Group, Window, WindowTask, read_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from proxy_trace.reading.trace import TraceFile
    from proxy_trace.reading.workers import Workers
    from proxy_trace.states.state_reader import Found, Held, Part
    from proxy_trace.states.step_window import LastHeld, Members
    from proxy_wrapper.events import Statistics

MOST_ENTRIES: Final = 1 << 14
"""The most values and gradients of a process in the steps that are processed together."""

_GROWTH: Final = 8
"""The maximum growth of the number of steps processed together, from one time to the next."""

_GROUPS_A_JOB: Final = 4
"""More groups than jobs, so that jobs that finish early find more work."""

_NO_GAP: Final = NO_STEP - 1


class _Present(NamedTuple):
    """Processes in which the same steps ended; for each, the last earlier step that it lacks and others have.

    Values from before that step may be outdated, because records are missing.
    """

    members: int
    last_gaps: dict[int, int]


class SideBySide:
    """Several traces, read to their ends. Processes are numbered from 0, in the order of the files.

    Memory grows with the state of a process and with the differences, not with the number of processes and steps.

    Attributes:
        found: the differences.
        steps: the number of steps after which they were compared.
        missing: for each process, the number of steps that it lacks and others have, before its end.
        standings: the position of each process at the end.
        last_held: by name, the state of each process at its end.
    """

    def __init__(
        self,
        files: Sequence[TraceFile],
        numbers: Sequence[int],
        is_step_wanted: Callable[[int], bool],
        is_chosen: Callable[[str], bool] | None = None,
        *,
        with_gradients: bool = True,
        digests: Sequence[bytes] | None = None,
    ) -> None:
        """Begin.

        Args:
            files: the traces.
            numbers: the number of each process in differences, such as its rank.
            is_step_wanted: whether to compare after a step; called with `NO_STEP` if no trace has a step.
            is_chosen: whether to compare a name; None for all.
            with_gradients: whether to compare gradients too.
            digests: the `StateDigest` of each trace, if known. Of traces with equal digests, one is read; gradients are
                then not compared.
        """
        self.found = MemberDifferences(numbers)
        self.steps = 0
        self.missing = [0] * len(files)
        alike: dict[object, int] = {}
        for index, digest in enumerate(digests or range(len(files))):
            alike[digest] = alike.get(digest, 0) | 1 << index
        self._begin = [Standing(files[next(_indices(members))].path, members) for members in alike.values()]
        self.standings = [Standing(file.path, 1 << index) for index, file in enumerate(files)]
        self.last_held: dict[str, Members[LastHeld]] = {}
        self._is_step_wanted = is_step_wanted
        self._is_chosen = is_chosen
        self._with_gradients = with_gradients
        self._is_first = True
        self._has_steps = False
        self._last_step = NO_STEP
        self._lagging: dict[int, int] = {}
        self._last_gaps: dict[int, int] = {}

    def read(self, workers: Workers) -> None:
        """Read all traces to their ends.

        Raises:
            UnreadableFileError: if the file system refuses.
            WorkerDiedError: if a process that read died.
        """
        groups = _split(self._begin, workers.jobs)
        begin, span = 0, 1
        while groups:
            tasks = [
                WindowTask(group, begin + span, MOST_ENTRIES, self._is_chosen, self._with_gradients) for group in groups
            ]
            read = list(workers.map(read_window, tasks))
            too_many = [each.give_up for each in read if each.window is None]
            if too_many:
                span = min(too_many) - begin
                continue
            window = Window.merged(each.window for each in read if each.window is not None)
            self._take(window)
            for standing in (standing for each in read for standing in each.ended):
                for index in _indices(standing.members):
                    self.standings[index] = standing
            groups = [each.group for each in read if each.group.standings]
            ahead = [standing.ahead for group in groups for standing in group.standings]
            begin = begin + span if NO_STEP in ahead else min(ahead, default=begin)
            most = max(each.entries for each in read)
            span = max(1, min(span * _GROWTH, span * MOST_ENTRIES // (4 * max(most, 1))))

    def start(self, name: str) -> dict[int, Statistics | None]:
        """The values of the processes under a name at the start of training, for those that have the name."""
        return {
            index: last.start[0]
            for last, members in self.last_held.get(name, {}).items()
            for index in _indices(members)
            if last.start
        }

    def has_bits(self, name: str) -> bool:
        """Whether all processes with a value under a name at the end have its fingerprint."""
        return all(
            last.has_bits or last.since <= self._last_gaps.get(index, _NO_GAP)
            for last, members in self.last_held.get(name, {}).items()
            for index in _indices(members)
        )

    def parts(self, name: str) -> dict[Part, int]:
        """The parts under a name at the end, with the processes that have each."""
        found: dict[Part, int] = {}
        for last, members in self.last_held.get(name, {}).items():
            found[last.part] = found.get(last.part, 0) | members
        return found

    def is_shared(self, name: str) -> bool:
        """Whether several processes have the same part under a name, so that their values should agree."""
        by_place: dict[tuple[str, str], int] = {}
        for part, members in self.parts(name).items():
            place = (part.type, part.placements)
            by_place[place] = by_place.get(place, 0) | members
        return any(map(_are_several, by_place.values()))

    def _take(self, window: Window) -> None:
        """Compare the contents of the next window."""
        for name, last in window.last_held.items():
            of_name = self.last_held.setdefault(name, {})
            for key, members in last.items():
                of_name[key] = of_name.get(key, 0) | members
        steps = sorted({step for of_some in window.steps for step in of_some} - {NO_STEP})
        if not steps:
            if not self._has_steps and window.steps.keys() == {(NO_STEP,)} and self._is_step_wanted(NO_STEP):
                self._compare(window, [NO_STEP], list(self._present(window, [NO_STEP])))
            return
        self._has_steps = True
        present = list(self._present(window, steps))
        self._last_step = steps[-1]
        compared = [
            step
            for step in steps
            if _are_several(_all_members(each.members for each in present if step in each.last_gaps))
            and self._is_step_wanted(step)
        ]
        self.steps += len(compared)
        self._compare(window, compared, present)

    def _present(self, window: Window, steps: list[int]) -> Iterator[_Present]:
        """Group processes by the steps that they have, and note missing steps."""
        for own, members in window.steps.items():
            if list(own) == steps and not any(members >> index & 1 for index in (*self._lagging, *self._last_gaps)):
                yield _Present(members, dict.fromkeys(steps, _NO_GAP))
                continue
            by_gap: dict[int, int] = {}
            for index in _indices(members):
                if own and index in self._lagging:
                    self.missing[index] += self._lagging.pop(index)
                    self._last_gaps[index] = self._last_step
                last_gap = self._last_gaps.get(index, _NO_GAP)
                by_gap[last_gap] = by_gap.get(last_gap, 0) | 1 << index
            last = own[-1] if own else NO_STEP
            lacked = [step for step in steps if step not in set(own)]
            inside = [step for step in lacked if step < last]
            for index in _indices(members):
                self.missing[index] += len(inside)
                if inside:
                    self._last_gaps[index] = inside[-1]
                if len(lacked) > len(inside):
                    self._lagging[index] = self._lagging.get(index, 0) + len(lacked) - len(inside)
            for last_gap, which in by_gap.items():
                gaps = [last_gap, *inside]
                yield _Present(which, {step: gaps[bisect_right(inside, step)] for step in own})

    def _compare(self, window: Window, steps: list[int], present: list[_Present]) -> None:
        """Compare what has changed after some steps; after the first step, everything."""
        if not steps:
            return
        first = {steps[0]} if self._is_first else set()
        self._is_first = False
        wanted = set(steps)
        for name, histories in window.held.items():
            changed = {held.step for history in histories for held in history if held.part is not None} & wanted
            for step in sorted(changed | first):
                self._compare_parts(name, step, list(_held_after(histories, step, present)), "")
        for name, gradients in window.gradients.items():
            for step in sorted({found.step for history in gradients for found in history} & wanted):
                self._compare_parts(name, step, list(_found_in(gradients, step, present)), "gradient")

    def _compare_parts(self, name: str, step: int, held: list[tuple[Part, int, Statistics | None]], kind: str) -> None:
        """Compare parts of the same type and placement."""
        by_place: dict[tuple[str, str], list[tuple[Part, int, Statistics | None]]] = {}
        for each in held:
            by_place.setdefault((each[0].type, each[0].placements), []).append(each)
        for same in by_place.values():
            if _are_several(_all_members(members for _, members, _ in same)):
                first, _, _ = min(same, key=lambda each: each[1] & -each[1])
                values = [(members, statistics) for _, members, statistics in same]
                self.found.compare(kind or first.kind, name, max(step, 0), values)


def _split(standings: list[Standing], jobs: int) -> list[Group]:
    """Split consecutive processes into as many groups as can keep all jobs busy."""
    count = 1 if jobs == 1 else min(len(standings), jobs * _GROUPS_A_JOB)
    groups = []
    for number in range(count):
        of_group = standings[len(standings) * number // count : len(standings) * (number + 1) // count]
        states = SharedStates()
        for _ in of_group:
            states.add(State.empty())
        groups.append(Group(of_group, states))
    return groups


def _held_after(
    histories: Members[tuple[Held, ...]], step: int, present: list[_Present]
) -> Iterator[tuple[Part, int, Statistics | None]]:
    """The values at the end of a step, each with the processes that have it."""
    for history, members in histories.items():
        place = bisect_right(history, step, key=lambda held: held.step)
        held = history[place - 1] if place else None
        if held is None or held.part is None:
            continue
        for each in present:
            which = members & each.members
            if which and held.since > each.last_gaps.get(step, held.since):
                yield held.part, which, held.statistics


def _found_in(
    gradients: Members[tuple[Found, ...]], step: int, present: list[_Present]
) -> Iterator[tuple[Part, int, Statistics | None]]:
    """The gradients at a step, each with the processes that have it."""
    for history, members in gradients.items():
        place = bisect_right(history, step, key=lambda found: found.step)
        found = history[place - 1] if place else None
        if found is None or found.step != step:
            continue
        for each in present:
            which = members & each.members
            if which and step in each.last_gaps:
                yield found.part, which, found.statistics


def _all_members(members: Iterable[int]) -> int:
    found = 0
    for each in members:
        found |= each
    return found


def _are_several(members: int) -> bool:
    return members & (members - 1) != 0


def _indices(members: int) -> Iterator[int]:
    """The numbers of the processes in a set."""
    while members:
        lowest = members & -members
        yield lowest.bit_length() - 1
        members ^= lowest
