"""Mod sets: what functions may change outside of themselves, and which functions may run without a visible call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.environment import ANY_ATTRIBUTE, ANY_ELEMENT
from instrumentor.analysis.tables import Marks, Table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from instrumentor.analysis.tables import Visits

# A name with the key of its scope, or a path step through an object, with no scope.
Thing = tuple[str, str]
ELEMENTS: Thing = ("", ANY_ELEMENT)
# Attributes with computed names.
ATTRIBUTES: Thing = ("", ANY_ATTRIBUTE)
# Everything that unseen code may change.
ANYTHING: Thing = ("", "?")
_NOTHING: frozenset[Thing] = frozenset()


def attribute(name: str) -> Thing:
    """The attributes with a name, of any object."""
    return ("", f".{name}")


def steps_among(things: AbstractSet[Thing]) -> frozenset[str]:
    """The path steps in a mod set."""
    return frozenset(name for scope, name in things if not scope and name[0] in ".[")


class Touched:
    """The mod set of each function, including its callees. Grows monotonically.

    Some functions run without a visible call: those that unseen code calls, at once or later, from a hook or another
    thread; generators, whenever they are resumed; and the methods of operators.
    """

    def __init__(self, visits: Visits) -> None:
        self._by: Table[str, set[Thing]] = Table(visits)
        self._unseen: Marks[Thing] = Marks(visits)
        self._running_unseen: set[str] = set()

    def by(self, function: str) -> AbstractSet[Thing]:
        """The mod set of a function."""
        return self._by.get(function, _NOTHING)

    @property
    def unseen_count(self) -> int:
        """The number of things that functions running without a visible call may change."""
        return len(self._unseen)

    def is_unseen(self, thing: Thing) -> bool:
        """Whether a function that runs without a visible call may change a thing."""
        return thing in self._unseen

    def note(self, function: str, things: Iterable[Thing]) -> None:
        """Add to the mod set of a function."""
        known = self._by.kept(function, set)
        if not known.issuperset(things):
            known.update(things)
            self._by.note_changed(function)
            if function in self._running_unseen:
                self._unseen.add(known)

    def note_running_unseen(self, function: str) -> None:
        """Record that a function may run without a visible call."""
        if function not in self._running_unseen:
            self._running_unseen.add(function)
            self._unseen.add(self._by.peek(function) or _NOTHING)
