"""Judges decisions about a program by what the program does when it runs."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings
from tests.instrumentor.program_tracer import Event, Recording, TracedProgram

if TYPE_CHECKING:
    from instrumentor.decision import Decision

Place = tuple[int, str]
# One round of the loops around two bindings, in one call of the function around them.
Moment = tuple[object, ...]


class Judgement(NamedTuple):
    """What the runs of one program say.

    Attributes:
        violations: where the decisions are wrong, in words.
        same: the pairs of bindings that always held one object.
        merged: those of them that the decisions say to be one object.
    """

    violations: list[str]
    same: set[tuple[Place, Place]]
    merged: set[tuple[Place, Place]]

    @property
    def missed(self) -> set[tuple[Place, Place]]:
        """The pairs that always held one object without the decisions saying so."""
        return self.same - self.merged

    @property
    def again(self) -> set[Place]:
        """The bindings that always held the object of another one."""
        return {place for pair in self.same for place in pair}

    @property
    def found_again(self) -> set[Place]:
        """Those of them that are merged with another one."""
        return {place for pair in self.merged for place in pair}


def judge(source: str, seeds: range) -> Judgement:
    """Instrument a program, run it with several seeds, and compare."""
    result = instrument_source(source.encode(), Settings(), source_name="program.py")
    decisions = {(each.line, each.target): each for each in result.decisions}
    program = TracedProgram(result.instrumented.decode())
    runs = [program.run(seed) for seed in seeds]
    plain = TracedProgram(source).run(seeds[0])
    violations: list[str] = []
    if _stores(plain) != _stores(runs[0]):
        violations.append("instrumented, the program does something else")
    for run in runs:
        violations += _uncovered(decisions, run)
    same: set[tuple[Place, Place]] = set()
    merged: set[tuple[Place, Place]] = set()
    places = sorted({event.place for run in runs for event in run.events})
    stores = [_by_place(run) for run in runs]
    for one, other in combinations(places, 2):
        identity = decisions[one].identity if one in decisions else None
        is_merged = identity is not None and other in decisions and decisions[other].identity == identity
        verdicts = [_compare(run.get(one, []), run.get(other, [])) for run in stores]
        if is_merged and False in verdicts:
            violations.append(f"{one} and {other} are said to be one object, {identity}")
        if any(verdict is True for verdict in verdicts) and all(verdict in (True, None) for verdict in verdicts):
            same.add((one, other))
            if is_merged:
                merged.add((one, other))
    return Judgement(list(dict.fromkeys(violations)), same, merged)


def _stores(run: Recording) -> tuple[list[tuple[Place, int]], str]:
    """What a run stored where, the objects numbered in the order in which they were stored, and how it ended."""
    numbers: dict[int, int] = {}
    return [(event.place, numbers.setdefault(event.thing, len(numbers))) for event in run.events], run.error


def _by_place(run: Recording) -> dict[Place, list[Event]]:
    found: dict[Place, list[Event]] = defaultdict(list)
    for event in run.events:
        found[event.place].append(event)
    return found


def _compare(one: list[Event], other: list[Event]) -> bool | str | None:
    """How two bindings relate in one run.

    Returns:
        False if they held different objects at one moment, True if at every moment both held one, "sometimes" if only
        one of them was reached at some moment, None if neither was reached at all.
    """
    if not one and not other:
        return None
    depth = 0
    if one and other and one[0].function == other[0].function:
        loops = [[loop for loop, _ in events[0].rounds] for events in (one, other)]
        depth = next(
            (i for i, pair in enumerate(zip(*loops, strict=False)) if pair[0] != pair[1]), min(map(len, loops))
        )
    moments: dict[Moment, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    is_one_function = bool(one and other and one[0].function == other[0].function)
    for side, events in enumerate((one, other)):
        for event in events:
            moment = (event.call, event.rounds[:depth]) if is_one_function else ()
            moments[moment][side].add(event.thing)
    if any(len(first | second) > 1 for first, second in moments.values() if first and second):
        return False
    return True if all(first and second for first, second in moments.values()) else "sometimes"


def _uncovered(decisions: dict[Place, Decision], run: Recording) -> list[str]:
    """The objects without a proxy, and those whose proxy is not where a decision says."""
    found: list[str] = []
    covered = {thing for things in run.proxied.values() for thing in things}
    below = {id(part) for thing in covered for part in run.things[thing].modules()}
    for event in run.events:
        # What a module registers is its own business: a temporary one has no proxy.
        if event.place[1] != "self.body" and id(run.things[event.thing]) not in below:
            found.append(f"{event.place} held an object that got no proxy")
        decision = decisions.get(event.place)
        if decision is not None and decision.verdict == "merged" and decision.confidence == "certain":
            lines = (decision.wrapped_at, *decision.alternatives)
            proxied = [run.things[thing] for line in lines if line is not None for thing in run.proxied.get(line, ())]
            if id(run.things[event.thing]) not in {id(part) for model in proxied for part in model.modules()}:
                found.append(f"{event.place} held an object that no proxy of line {lines} is for")
    return list(dict.fromkeys(found))
