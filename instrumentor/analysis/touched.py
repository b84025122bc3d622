"""What functions may change outside of themselves, and which of them may run where no call of them is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.environment import ANY_ATTRIBUTE, ANY_ELEMENT
from instrumentor.analysis.tables import Marks, Table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from instrumentor.analysis.tables import Visits

# A name with the key of its scope; or, with no scope, a step that an access path takes through an object.
Thing = tuple[str, str]
ELEMENTS: Thing = ("", ANY_ELEMENT)
# Attributes whose names are computed.
ATTRIBUTES: Thing = ("", ANY_ATTRIBUTE)
# Whatever code may change that cannot be seen.
ANYTHING: Thing = ("", "?")
_NOTHING: frozenset[Thing] = frozenset()


def attribute(name: str) -> Thing:
    """The attributes of a name, whatever has them."""
    return ("", f".{name}")


def steps_among(things: AbstractSet[Thing]) -> frozenset[str]:
    """The steps through objects among some things."""
    return frozenset(name for scope, name in things if not scope and name[0] in ".[")


class Touched:
    """What each function may change, what it calls included; it only ever grows.

    Some functions run where nothing shows it: those that code calls which cannot be seen, at once or later, from a hook
    or another thread; generators, whenever someone goes over them; and the methods behind operators.
    """

    def __init__(self, visits: Visits) -> None:
        self._by: Table[str, set[Thing]] = Table(visits)
        self._unseen: Marks[Thing] = Marks(visits)
        self._running_unseen: set[str] = set()

    def by(self, function: str) -> AbstractSet[Thing]:
        """What a function may change."""
        return self._by.get(function, _NOTHING)

    @property
    def unseen_count(self) -> int:
        """How many things functions may change that run where no call of them is seen."""
        return len(self._unseen)

    def is_unseen(self, thing: Thing) -> bool:
        """Whether a function may change a thing that runs where no call of it is seen."""
        return thing in self._unseen

    def note(self, function: str, things: Iterable[Thing]) -> None:
        """Remember what a function may change."""
        known = self._by.kept(function, set)
        if not known.issuperset(things):
            known.update(things)
            self._by.note_changed(function)
            if function in self._running_unseen:
                self._unseen.add(known)

    def note_running_unseen(self, function: str) -> None:
        """Remember that a function may run where no call of it is seen."""
        if function not in self._running_unseen:
            self._running_unseen.add(function)
            self._unseen.add(self._by.peek(function) or _NOTHING)
