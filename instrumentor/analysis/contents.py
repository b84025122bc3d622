"""What lists, dicts and other containers hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.tables import Marks, Table
from instrumentor.analysis.values import Box, Pack, SiteKey, Value, grown, join, let_go

if TYPE_CHECKING:
    from instrumentor.analysis.blocks import Conditions
    from instrumentor.analysis.tables import Visits
    from instrumentor.analysis.values import Atom

# The key of what lies under a key that is not known.
ANY_KEY = "*"
_NO_BOXES: frozenset[SiteKey] = frozenset()


class Contents(Table[SiteKey, dict[str, Value]]):
    """What each container was ever given, by its site and by key.

    Attributes:
        scattered: the containers whose elements may lie under other keys by now.
        stored_when: the conditions under which an object was put into a container after that was made.
        let_go: what is held by values that grew too large to tell it apart.
    """

    def __init__(self, visits: Visits) -> None:
        super().__init__(visits)
        self.scattered: Marks[SiteKey] = Marks(visits)
        self.stored_when: Table[tuple[SiteKey, Atom], set[Conditions]] = Table(visits)
        self.let_go: set[Atom] = set()
        self._elements: dict[SiteKey, Value] = {}
        self._reached: dict[Value, tuple[Value, frozenset[SiteKey]]] = {}

    def put(self, site: SiteKey, key: str, value: Value) -> None:
        """Let the container made at `site` hold one thing more under `key`."""
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
        """What the container made at `site` may hold under `key`; under any key for None."""
        held = self.get(site, {})
        if key is None or site in self.scattered:
            found = self._elements.get(site)
            if found is None:
                found = self._elements[site] = join(held.values())
            return found
        return join([held[each] for each in (key, ANY_KEY) if each in held])

    def note_conditions(self, box: SiteKey, atom: Atom, conditions: Conditions) -> None:
        """Remember that an object is put into a container under some conditions."""
        known = self.stored_when.kept((box, atom), set)
        if conditions not in known:
            known.add(conditions)
            self.stored_when.note_changed((box, atom))

    def reach(self, value: Value) -> Value:
        """The objects in a value and in the tuples and containers it holds; containers' own atoms aside."""
        return self._look_into(value)[0]

    def boxes(self, value: Value) -> frozenset[SiteKey]:
        """The containers that a value is, and those in them and in tuples."""
        return self._look_into(value)[1]

    def _look_into(self, value: Value) -> tuple[Value, frozenset[SiteKey]]:
        for atom in value:
            if isinstance(atom, (Box, Pack)):
                break
        else:
            return value, _NO_BOXES  # the usual case, in which there is nothing to look into
        known = self._reached.get(value)
        if known is None:
            known = self._reached[value] = self._reach(value)
        for site in known[1]:
            self.note_read(site)
        return known

    def _reach(self, value: Value) -> tuple[Value, frozenset[SiteKey]]:
        """The objects, with the containers that they were found in."""
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
