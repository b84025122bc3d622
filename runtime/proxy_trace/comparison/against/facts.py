"""What a run did, apart from values: calls, settings, shapes, steps and modes, with counts and first places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy_wrapper.events import Happening

CALL: Final = "call"
TORCH_CALL: Final = "torch call"
READ: Final = "read"
ATTRIBUTE: Final = "attribute"
FLOW: Final = "flow"
MODULE: Final = "module"
PARAMETER: Final = "parameter"
BUFFER: Final = "buffer"
OPTIMIZER: Final = "optimizer"
CHANGED_SETTING: Final = "changed setting"
STEP: Final = "step"
BACKWARD: Final = "backward"
SCHEDULER: Final = "scheduler"
CLIP: Final = "clip"
LOAD: Final = "load"
INPUT: Final = "input"
CONFIGURATION: Final = "configuration"
NON_FINITE: Final = "non-finite"
RUN: Final = "run"
"""The kinds of subjects."""

PER_STEP: Final = "times a step"
AFTER: Final = "comes after"
"""Aspects shared by several kinds of subjects."""

_MOST_VALUES: Final = 64
"""The maximum number of distinct values per aspect. Beyond it (sequences of any length), the aspect is not compared."""

_MOST_SUBJECTS: Final = 1 << 17
_MOST_FUNCTIONS: Final = 8

SubjectKey: TypeAlias = "tuple[str, object]"
"""A kind, and its subject: a number shared by corresponding modules or tensors of both runs, or names."""


class Sighting:
    """One value of an aspect: its count, and its first occurrence.

    Attributes:
        count: how often.
        step: the optimizer steps completed by the first one; -1 before anything happened.
        order: the number of the first record that shows it.
        location: the id of the place; 0 for none.
    """

    __slots__ = ("count", "location", "order", "step")

    def __init__(self, step: int, order: int, location: int) -> None:
        self.count = 0
        self.step = step
        self.order = order
        self.location = location


class Subject:
    """One thing that a run has or does: a module, calls of it, the steps of an optimizer.

    Attributes:
        first: the number of its records, and the first one.
        aspects: the values seen, by aspect.
        places: by function of the script in which it happened, the id of the first place there.
        location: the id of the place of the last one.
    """

    __slots__ = ("_in_step", "_step", "_steps", "aspects", "first", "location", "overflowing", "places")

    def __init__(self, step: int, order: int, location: int) -> None:
        self.first = Sighting(step, order, location)
        self.aspects: dict[str, dict[str, Sighting]] = {}
        self.overflowing: set[str] = set()
        self.places: dict[str, int] = {}
        self.location = location
        self._step = -1
        self._in_step = 0
        self._steps = 0

    def tell(self, aspect: str, value: str, step: int, order: int, location: int) -> None:
        """Count a value of an aspect."""
        values = self.aspects.get(aspect)
        if values is None:
            values = self.aspects[aspect] = {}
        seen = values.get(value)
        if seen is None:
            if len(values) >= _MOST_VALUES:
                self.overflowing.add(aspect)
                return
            seen = values[value] = Sighting(step, order, location)
        seen.count += 1

    def count_in_step(self, step: int, order: int) -> None:
        """Count one occurrence in a step. The number in each earlier step is an aspect."""
        if step != self._step:
            self._end_step(order)
            self._step = step
        self._in_step += 1

    def end(self, steps: int, order: int) -> None:
        """The run has ended after `steps` steps. In steps not counted so far, it did not happen."""
        self._end_step(order)
        if self._steps and steps > self._steps:
            self.tell(PER_STEP, "0", self.first.step, self.first.order, self.first.location)
            self.aspects[PER_STEP]["0"].count = steps - self._steps

    def _end_step(self, order: int) -> None:
        if self._in_step:
            self._steps += 1
            self.tell(PER_STEP, f"{self._in_step:,}", self._step, order, self.location)
        self._in_step = 0


class Facts(NamedTuple):
    """What a run did.

    Attributes:
        subjects: the subjects, by kind and name.
        names: their names for people.
        places: by location id, its "file:line".
        functions: by location id, the function it is in.
        last_step: the last step that ended; -1 for none.
        end: how it ended; "" if unknown.
        is_whole: whether all subjects were kept.
    """

    subjects: Mapping[SubjectKey, Subject]
    names: Mapping[SubjectKey, str]
    places: Mapping[int, str]
    functions: Mapping[int, str]
    last_step: int
    end: str
    is_whole: bool


class SubjectTable:
    """The subjects of a run found so far."""

    def __init__(self) -> None:
        self.subjects: dict[SubjectKey, Subject] = {}
        self.order = 0
        self.is_whole = True
        self._spare = Subject(-1, 0, 0)

    def at(self, key: SubjectKey, step: int, location: int) -> Subject:
        """Count one more record of a subject, and return it. Beyond the maximum number, the result is not kept."""
        subject = self.subjects.get(key)
        if subject is None:
            if len(self.subjects) >= _MOST_SUBJECTS:
                self.is_whole = False
                return self._spare
            subject = self.subjects[key] = Subject(step, self.order, location)
        subject.first.count += 1
        subject.location = location
        return subject

    def happens(self, key: SubjectKey, event: Happening, function: str = "") -> Subject:
        """The same for something that happens in `function`."""
        subject = self.at(key, event.step, event.location)
        if function not in subject.places and len(subject.places) < _MOST_FUNCTIONS:
            subject.places[function] = event.location
        return subject
