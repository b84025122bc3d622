"""The differences between what a run and a good run did, ranked.

Nothing is inferred: a difference is a subject that only one run has, or an aspect whose values differ. Deviations are
ranked by what they are about (a missing call comes before a shape, a shape before a frequency), then by the share of
the run concerned, then by which comes first in the run.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy_trace.comparison.against import facts
from proxy_trace.comparison.compare_calls import ENDS_IN_ORDER
from proxy_trace.reading.folded_names import fold_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from proxy_trace.comparison.against.facts import Facts, Sighting, Subject, SubjectKey

_SHOWN_VALUES: Final = 3

_PRESENCE: Final = {
    facts.CLIP: 1.0,
    facts.SCHEDULER: 1.0,
    facts.LOAD: 1.0,
    facts.OPTIMIZER: 1.0,
    facts.STEP: 1.0,
    facts.BACKWARD: 1.0,
    facts.MODULE: 1.0,
    facts.CALL: 0.95,
    facts.CHANGED_SETTING: 0.85,
    facts.TORCH_CALL: 0.8,
    facts.PARAMETER: 0.75,
    facts.BUFFER: 0.7,
    facts.ATTRIBUTE: 0.6,
    facts.FLOW: 0.6,
    facts.READ: 0.5,
    facts.NON_FINITE: 0.4,
}
"""The weight of a subject of each kind that only one of the runs has. Other kinds are not compared in this way."""

_ASPECTS: Final = {
    (facts.CALL, "mode"): 0.95,
    (facts.CALL, "autograd"): 0.9,
    (facts.CALL, "inputs"): 0.8,
    (facts.CALL, "outputs"): 0.75,
    (facts.TORCH_CALL, "inputs"): 0.6,
    (facts.TORCH_CALL, "outputs"): 0.55,
    (facts.BACKWARD, "loss computed by"): 0.9,
    (facts.BACKWARD, "shapes in the loss"): 0.8,
    (facts.BACKWARD, facts.PER_STEP): 0.75,
    (facts.CHANGED_SETTING, facts.PER_STEP): 0.9,
    (facts.STEP, "gradients of the step before"): 0.95,
    (facts.STEP, "backward passes before it"): 0.7,
    (facts.STEP, "tensors"): 0.6,
    (facts.PARAMETER, "requires_grad"): 0.95,
    (facts.PARAMETER, "optimizer"): 0.95,
    (facts.PARAMETER, "type"): 0.9,
    (facts.PARAMETER, "tied to"): 0.95,
    (facts.PARAMETER, "at the start"): 0.9,
    (facts.PARAMETER, "gradient"): 0.65,
    (facts.PARAMETER, "gradient without an optimizer"): 0.7,
    (facts.PARAMETER, "change"): 0.5,
    (facts.BUFFER, "change"): 0.6,
    (facts.INPUT, "from call to call"): 0.9,
    (facts.INPUT, "values"): 0.7,
    (facts.CONFIGURATION, "value"): 0.85,
    (facts.RUN, "arguments"): 0.85,
    (facts.RUN, "Python"): 0.2,
    (facts.RUN, "torch"): 0.3,
    (facts.RUN, "end"): 0.3,
}
"""The weight of an aspect that differs."""

_OF_ASPECT: Final = {facts.PER_STEP: 0.6, facts.AFTER: 0.35}
_OTHER_ASPECTS: Final = 0.9
"""Mostly settings: of modules, optimizers, loads."""

_SPREADING: Final = frozenset(
    {"inputs", "outputs", "gradient", "gradient without an optimizer", "change", facts.PER_STEP, facts.AFTER}
)
"""A difference in these mostly spreads through the model. The first is reported, with the number of the others."""

_PROPORTIONED: Final = frozenset({"mode", "autograd", "gradients of the step before", facts.PER_STEP})
_LEAST_SHIFT: Final = 0.1
"""Runs of different length have these values in about the same proportions. A difference must exceed that."""

_VALUE_BOUND: Final = frozenset({"gradient", "change"})
_LEAST_SHARE: Final = 0.5
"""A zero gradient or an unchanged parameter occurs now and then. It is reported only if it does in most cases."""


class Deviation(msgspec.Struct, frozen=True):
    """One difference from a good run.

    Attributes:
        kind: the kind of the subject, one of the kinds in `facts`.
        name: the subject; "prefix.*" for all below a module.
        aspect: the aspect that differs; "" if only one run has the subject.
        here: the value in this run, in words.
        there: the value in the good run.
        names: the number of names that `name` stands for.
        further: the number of other subjects with the same difference, which may follow from this one.
        step: the number of optimizer steps completed when it first differed; None if it differs from the start.
        place: the line of this run's script, as "file:line"; "" if unknown.
        place_there: the line of the good run's script.
        weight: from 0 to 1; higher weights come first.
    """

    kind: str
    name: str
    aspect: str
    here: str
    there: str
    names: int = 1
    further: int = 0
    step: int | None = None
    place: str = ""
    place_there: str = ""
    weight: float = 0.0


class _Found(NamedTuple):
    """A deviation of one subject. `order` is the number of the first record, in either run, that shows it."""

    key: SubjectKey
    told: Deviation
    order: int


def find_deviations(here: Facts, there: Facts, *, has_gaps: bool = False) -> list[Deviation]:
    """The differences between a run and a good run, most significant first.

    Args:
        here: the run.
        there: the good run.
        has_gaps: whether one run records steps that the other does not. Frequencies are then not compared.
    """
    comparer = _Comparer(here, there, has_gaps=has_gaps)
    found = list(_topmost(comparer.found()))
    folded = _without_followers(_folded(found, here, there))
    return [each.told for each in sorted(folded, key=lambda each: (-each.told.weight, each.order))]


class _Comparer:
    def __init__(self, here: Facts, there: Facts, *, has_gaps: bool) -> None:
        self._here = here
        self._there = there
        self._has_gaps = has_gaps
        # If a run was killed or is still running, what would come after its end is not missing.
        self._until = {
            id(facts_): None if facts_.end in ENDS_IN_ORDER else facts_.last_step + 1 for facts_ in (here, there)
        }

    def found(self) -> Iterator[_Found]:
        """Yield the deviations of each subject."""
        here, there = self._here.subjects, self._there.subjects
        for key, subject in there.items():
            if key in here:
                yield from self._compare(key, here[key], subject)
            elif key[0] in _PRESENCE and self._is_in_time(subject.first, self._here):
                yield self._only(key, subject, self._there)
        for key, subject in here.items():
            if key not in there and key[0] in _PRESENCE and self._is_in_time(subject.first, self._there):
                yield self._only(key, subject, self._here)

    def _is_in_time(self, sighting: Sighting, other: Facts) -> bool:
        until = self._until[id(other)]
        return other.is_whole and (until is None or sighting.step < until)

    def _only(self, key: SubjectKey, subject: Subject, owner: Facts) -> _Found:
        """The deviation of a subject that only one of the runs has."""
        kind, _ = key
        count = "there" if kind in _DEFINITIONS else _times(subject.first.count)
        is_here = owner is self._here
        place = owner.places.get(subject.first.location, "")
        lack = "missing" if kind in _DEFINITIONS else "never"
        told = Deviation(
            kind,
            owner.names[key],
            "",
            count if is_here else lack,
            lack if is_here else count,
            step=_since(subject.first),
            place=place if is_here else "",
            place_there="" if is_here else place,
            weight=_PRESENCE[kind] * (1.0 if not is_here else 0.97),
        )
        return _Found(key, told, subject.first.order)

    def _compare(self, key: SubjectKey, here: Subject, there: Subject) -> Iterator[_Found]:
        """The deviations of a subject that both runs have."""
        for aspect in dict.fromkeys((*there.aspects, *here.aspects)):
            if aspect in here.overflowing or aspect in there.overflowing:
                continue
            if aspect in (facts.PER_STEP, facts.AFTER) and self._has_gaps:
                continue
            values = here.aspects.get(aspect, {}), there.aspects.get(aspect, {})
            new = [each for value, each in values[0].items() if value not in values[1]]
            lacking = [each for value, each in values[1].items() if value not in values[0]]
            new = [each for each in new if self._is_in_time(each, self._there)]
            lacking = [each for each in lacking if self._is_in_time(each, self._here)]
            share = max(_share(new, values[0]), _share(lacking, values[1]))
            if not new and not lacking:
                shared = [{value: of[value] for value in values[0] if value in values[1]} for of in values]
                share = _shift(shared[0], shared[1]) if aspect in _PROPORTIONED and not self._has_gaps else 0.0
                if share < _LEAST_SHIFT:
                    continue
            if aspect == facts.PER_STEP and _shift(*values) < _LEAST_SHIFT:  # As with episodes of different length.
                continue
            if aspect in _VALUE_BOUND and share < _LEAST_SHARE and all(values):
                continue
            yield self._differs(key, aspect, values, (new, lacking), share, (here, there))

    def _differs(
        self,
        key: SubjectKey,
        aspect: str,
        values: tuple[Mapping[str, Sighting], Mapping[str, Sighting]],
        only: tuple[Sequence[Sighting], Sequence[Sighting]],
        share: float,
        subjects: tuple[Subject, Subject],
    ) -> _Found:
        new, lacking = only
        weight = _ASPECTS.get((key[0], aspect), _OF_ASPECT.get(aspect, _OTHER_ASPECTS))
        first = min((*new, *lacking) or values[0].values(), key=lambda each: each.order)
        there = self._there.places.get(_first(lacking or values[1].values()), "")
        told = Deviation(
            key[0],
            self._here.names[key],
            aspect,
            _values_words(values[0], self._is_counted(key, aspect)),
            _values_words(values[1], self._is_counted(key, aspect)),
            step=_since(first),
            place=self._place_here(new, lacking, values[0], subjects[0]),
            place_there=there,
            weight=weight * (0.6 + 0.4 * share),
        )
        return _Found(key, told, first.order)

    def _is_counted(self, key: SubjectKey, aspect: str) -> bool:
        return key[0] not in (facts.MODULE, facts.RUN, facts.CONFIGURATION) and aspect != "type"

    def _place_here(
        self, new: Sequence[Sighting], lacking: Sequence[Sighting], values: Mapping[str, Sighting], subject: Subject
    ) -> str:
        """Where this run has what the good run lacks, or else where it does something else in the same function."""
        if new:
            location = _first(new)
        else:
            function = self._there.functions.get(_first(lacking), "")
            location = subject.places.get(function, 0) or _first(values.values()) or subject.first.location
        return self._here.places.get(location, "")


_DEFINITIONS: Final = frozenset({facts.MODULE, facts.PARAMETER, facts.BUFFER, facts.OPTIMIZER})
_OF_MODULES: Final = frozenset({facts.MODULE, facts.PARAMETER, facts.BUFFER, facts.CALL, facts.LOAD, facts.INPUT})


def _share(some: Iterable[Sighting], values: Mapping[str, Sighting]) -> float:
    total = sum(each.count for each in values.values())
    return sum(each.count for each in some) / total if total else 0.0


def _shift(here: Mapping[str, Sighting], there: Mapping[str, Sighting]) -> float:
    """The distance between proportions: the share, from 0 to 1, that would have to change its value."""
    totals = [sum(each.count for each in values.values()) or 1 for values in (here, there)]
    shift = 0.0
    for value in {**here, **there}:
        one, other = (values[value].count if value in values else 0 for values in (here, there))
        shift += abs(one / totals[0] - other / totals[1])
    return shift / 2


def _first(sightings: Iterable[Sighting]) -> int:
    """The number of the first record of some sightings."""
    return min(sightings, key=lambda each: each.order).location if sightings else 0


def _since(sighting: Sighting) -> int | None:
    return sighting.step if sighting.step > 0 else None


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _values_words(values: Mapping[str, Sighting], is_counted: bool) -> str:
    """The values of an aspect, the most frequent first."""
    if not values:
        return "nothing"
    ordered = sorted(values.items(), key=lambda each: (-each[1].count, each[1].order))
    words = [
        f"{value} ({_times(each.count)})" if is_counted and len(ordered) > 1 else value
        for value, each in ordered[:_SHOWN_VALUES]
    ]
    if len(ordered) > _SHOWN_VALUES:
        words.append(f"{len(ordered) - _SHOWN_VALUES:,} more")
    return ", ".join(words)


def _topmost(found: Iterable[_Found]) -> Iterator[_Found]:
    """Drop what follows from a missing or added module or call: deviations of its submodules and tensors."""
    found = list(found)
    modules = [each.told for each in found if each.told.kind == facts.MODULE]
    others = {told.name for told in modules if told.aspect in ("", "class")}
    remade = {told.name for told in modules} - others
    uncalled = {each.told.name for each in found if each.told.kind == facts.CALL and not each.told.aspect}
    for each in found:
        told = each.told
        if told.kind not in _OF_MODULES:
            yield each
        elif told.kind == facts.MODULE:
            if not _is_below(told.name, others, or_itself=told.aspect not in ("", "class")):
                yield each
        elif not (
            _is_below(told.name.partition(",")[0], others, or_itself=True)
            or (told.kind == facts.CALL and not told.aspect and _is_below(told.name, uncalled, or_itself=False))
            or (told.aspect == "type" and told.name.rpartition(".")[0] in remade)
        ):
            yield each


def _is_below(name: str, names: set[str], *, or_itself: bool) -> bool:
    if not names:
        return False
    above = name if or_itself else name.rpartition(".")[0]
    while above:
        if above in names:
            return True
        above = above.rpartition(".")[0]
    return False


def _folded(found: Iterable[_Found], here: Facts, there: Facts) -> list[_Found]:
    """Merge deviations with the same words into one for all names below a module."""
    alike: dict[tuple[str, str, str, str], list[_Found]] = defaultdict(list)
    for each in found:
        alike[each.told.kind, each.told.aspect, each.told.here, each.told.there].append(each)
    all_names: dict[str, list[str]] = defaultdict(list)
    for of_run in (here, there):
        for key, name in of_run.names.items():
            all_names[key[0]].append(name)
    folded = []
    for (kind, *_), group in alike.items():
        if len(group) == 1 or (kind == facts.CALL and group[0].told.aspect in _SPREADING):
            folded += group
            continue
        folded.append(_fold_group(group, dict.fromkeys(all_names[kind])))
    return folded


def _fold_group(group: Sequence[_Found], all_names: Iterable[str]) -> _Found:
    """The first of some deviations with the same words, under a name for all below a module, and their number."""
    by_name = {each.told.name: each for each in group}
    first = min(group, key=lambda each: each.order)
    for name, count in fold_names(by_name, all_names):
        if first.told.name == name or (count > 1 and first.told.name.startswith(name.removesuffix("*"))):
            told = msgspec.structs.replace(first.told, name=name, names=count, further=len(by_name) - count)
            return first._replace(told=told)
    return first


def _without_followers(found: Iterable[_Found]) -> list[_Found]:
    """Keep the first of the differences that spread through a model, with the number of the others."""
    kept: list[_Found] = []
    groups: dict[tuple[str, str], list[_Found]] = defaultdict(list)
    for each in found:
        if each.told.aspect in _SPREADING:
            # The inputs and outputs of calls form one chain.
            chain = "inputs" if each.told.aspect == "outputs" else each.told.aspect
            groups["" if chain == facts.AFTER else each.told.kind, chain].append(each)
        else:
            kept.append(each)
    for group in groups.values():
        first = max(group, key=lambda each: (each.told.weight > 0.5, -each.order))
        further = sum(each.told.names for each in group if each is not first)
        kept.append(first._replace(told=msgspec.structs.replace(first.told, further=further)))
    return kept
