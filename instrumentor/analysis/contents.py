"""The contents of lists, dicts and other containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.tables import Marks, Table
from instrumentor.analysis.values import OPAQUE, Box, Pack, SiteKey, Value, grown, join, let_go

if TYPE_CHECKING:
    from collections.abc import Set

    from instrumentor.analysis.blocks import Conditions
    from instrumentor.analysis.tables import Visits
    from instrumentor.analysis.values import Atom

# The key for elements whose key is unknown.
ANY_KEY = "*"
_NO_BOXES: frozenset[SiteKey] = frozenset()


class Contents(Table[SiteKey, dict[str, Value]]):
    """All values that each container was given, by its site and by key.

    Attributes:
        scattered: the containers whose elements may have moved to other keys.
        stored_when: the conditions under which an object was put into an existing container.
        let_go: the atoms lost when values were widened.
    """

    def __init__(self, visits: Visits, whole_units: Set[str]) -> None:
        super().__init__(visits)
        self._whole_units = whole_units
        self.scattered: Marks[SiteKey] = Marks(visits)
        self.stored_when: Table[tuple[SiteKey, Atom], set[Conditions]] = Table(visits)
        self.let_go: set[Atom] = set()
        self._elements: dict[SiteKey, Value] = {}
        self._reached: dict[Value, tuple[Value, frozenset[SiteKey]]] = {}

    def put(self, site: SiteKey, key: str, value: Value) -> None:
        """Add a value to the container made at `site`, under `key`."""
        held = self.kept(site, dict)
        old = held.get(key)
        new = grown(old, value)
        self.let_go.update(let_go(old, value, new))
        if new != old:
            held[key] = new
            self._elements.pop(site, None)
            self.note_changed(site)
            self._reached.clear()

    def elements(self, site: SiteKey, key: str | None = None) -> Value:
        """What the container made at `site` may hold under `key`; under any key if it is None.

        Files that are not analysed may fill another file's table when they are imported. Such a table counts as unknown
        as long as nothing is seen in it.
        """
        held = self.get(site, {})
        if not held and site.unit not in self._whole_units:
            return OPAQUE
        if key is None or site in self.scattered:
            found = self._elements.get(site)
            if found is None:
                found = self._elements[site] = join(held.values())
            return found
        return join([held[each] for each in (key, ANY_KEY) if each in held])

    def note_conditions(self, box: SiteKey, atom: Atom, conditions: Conditions) -> None:
        """Record the conditions under which an object is put into a container."""
        known = self.stored_when.kept((box, atom), set)
        if conditions not in known:
            known.add(conditions)
            self.stored_when.note_changed((box, atom))

    def reach(self, value: Value) -> Value:
        """The objects in a value and in its tuples and containers, without the containers themselves."""
        return self._look_into(value)[0]

    def boxes(self, value: Value) -> frozenset[SiteKey]:
        """The containers that a value may be, and those nested in them and in tuples."""
        return self._look_into(value)[1]

    def _look_into(self, value: Value) -> tuple[Value, frozenset[SiteKey]]:
        for atom in value:
            if isinstance(atom, (Box, Pack)):
                break
        else:
            return value, _NO_BOXES  # the common case: nothing to look into
        known = self._reached.get(value)
        if known is None:
            known = self._reached[value] = self._reach(value)
        for site in known[1]:
            self.note_read(site)
        return known

    def _reach(self, value: Value) -> tuple[Value, frozenset[SiteKey]]:
        """The objects reached, and the containers that were searched."""
        found: set[Atom] = set()
        seen: set[Atom] = set()
        boxes: set[SiteKey] = set()
        pending = list(value)
        while pending:
            atom = pending.pop()
            if atom in seen:
                continue
            seen.add(atom)
            if isinstance(atom, Pack):
                pending.extend(inner for item in atom.items for inner in item)
            elif isinstance(atom, Box):
                boxes.add(atom.site)
                for held in (self.peek(atom.site) or {}).values():
                    pending.extend(held)
            else:
                found.add(atom)
        return frozenset(found), frozenset(boxes)
