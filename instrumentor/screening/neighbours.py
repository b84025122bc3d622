"""A project whose other files are known by their outlines alone, as libraries are known by what they return.

To the analysis, what another file defines is a library's name, and `Knowledge` tells what it may give at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.contents import ANY_KEY
from instrumentor.resolve.classes import Hierarchy
from instrumentor.resolve.knowledge import Knowledge
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.project import Project
from instrumentor.resolve.unit import SCRIPT, Class, Function, Unit
from instrumentor.screening.given import METHODS_OF_VALUES, Given, Meaning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.resolve.call_values import Values
    from instrumentor.resolve.catalogue import Effect, Holding
    from instrumentor.resolve.knowledge import Origin
    from instrumentor.resolve.project import Sources
    from instrumentor.settings import Settings

# How the names of other files begin. No package can have such a name.
_FILE = "<file {}>"
_START = _FILE.partition("{")[0]


class Neighbours:
    """The other files of a project, and names for what they define.

    Attributes:
        has_met_use: whether the script calls something of another file that may use something as a module.

    Args:
        script: the script, whose own definitions keep their meanings.
        settings: the user's settings.
        sources: finds the outlines of the other files, and the installed packages.
    """

    def __init__(self, script: Unit, settings: Settings, sources: Sources) -> None:
        self.project = Project(script, settings, sources)
        self.hierarchy = Hierarchy(self.project)
        self.given = Given(self.hierarchy)
        self.has_met_use = False
        self._names: dict[Unit, str] = {}
        self._meanings: dict[str, Meaning] = {}

    @property
    def has_any(self) -> bool:
        """Whether the script leads to another file."""
        return bool(self._names)

    @property
    def units(self) -> list[Unit]:
        """The other files read so far."""
        return [unit for unit in self.project.units.values() if unit is not None and unit.name != SCRIPT]

    def name_of(self, meaning: Meaning) -> Meaning:
        """The name of something that another file defines; anything else as it is."""
        if isinstance(meaning, Unit) and meaning.name != SCRIPT:
            name = self._names.setdefault(meaning, _FILE.format(len(self._names)))
            self._meanings[name] = meaning
            return name
        if isinstance(meaning, (Class, Function)) and meaning.unit.name != SCRIPT:
            name = f"{self.name_of(meaning.unit)}.{meaning.key.removeprefix(meaning.unit.name)}"
            self._meanings[name] = meaning
            return name
        return meaning

    def meaning(self, name: str) -> Meaning:
        """The meaning of a name: something that another file defines, or the name of a library."""
        if not name.startswith(_START):
            return name
        if name not in self._meanings:
            above, _, last = name.rpartition(".")
            self._meanings[name] = self._member(self.meaning(above), last) if above else None
        return self._meanings[name]

    def _member(self, holder: Meaning, name: str) -> Meaning:
        if isinstance(holder, Unit):
            return self.project.member(holder, name)
        if isinstance(holder, Class):
            return self.hierarchy.method(holder, name)
        return f"{holder}.{name}" if isinstance(holder, str) else None


def is_of_neighbour(name: str) -> bool:
    """Whether a name is that of something in another file."""
    return name.startswith(_START)


class NeighbourProject(Project):
    """A script with neighbours. Only the script itself is analysed.

    Attributes:
        neighbours: the other files.
    """

    def __init__(self, script: Unit, settings: Settings, sources: Sources) -> None:
        super().__init__(script, settings)
        self.neighbours = Neighbours(script, settings, sources)
        self.knowledge = KnowledgeOfNeighbours(settings, sources, self.neighbours)

    def lookup(self, unit: Unit, dotted: str) -> Meaning:
        """The meaning of an imported dotted name; what other files define, variables too, has a library's name."""
        if is_of_neighbour(dotted):
            return self.neighbours.name_of(self.neighbours.meaning(dotted)) or dotted
        found = self.neighbours.project.lookup(unit, dotted)
        if found is not None:
            return self.neighbours.name_of(found)
        above, _, name = dotted.rpartition(".")
        holder = self.neighbours.project.lookup(unit, above or ".") if name else None
        return f"{self.neighbours.name_of(holder)}.{name}" if isinstance(holder, Unit) else None

    def member(self, unit: Unit, name: str) -> Meaning:
        """The meaning of `name` at the top level of the script."""
        found = self.neighbours.project.member(unit, name)
        if found is None and name in unit.imports:
            return self.lookup(unit, unit.imports[name])
        return self.neighbours.name_of(found)

    def starred(self, unit: Unit, name: str) -> list[Unit]:  # noqa: ARG002
        """None: the variables of other files are not followed."""
        return []


class KnowledgeOfNeighbours(Knowledge):
    """Knowledge about libraries, and about other files what their outlines tell."""

    def __init__(self, settings: Settings, sources: Sources, neighbours: Neighbours) -> None:
        super().__init__(settings, sources.installed)
        self._neighbours = neighbours

    def effect_of(self, name: str) -> Effect | None:
        """As for libraries; none for what other files define."""
        meaning = self._neighbours.meaning(name)
        return super().effect_of(meaning) if isinstance(meaning, str) else None

    def nature_of_call(self, name: str) -> Nature:
        """The greatest nature that the result of a call may have."""
        meaning = self._neighbours.meaning(name)
        if isinstance(meaning, str):
            return super().nature_of_call(meaning)
        above, _, last = name.rpartition(".")
        if meaning is None and last in METHODS_OF_VALUES:
            return Nature.UNKNOWN
        holder = self._neighbours.meaning(above) if last == ANY_KEY else None
        given = self._neighbours.given
        return given.by_any_of(holder) if isinstance(holder, Unit) else given.by(meaning)

    def returned(self, name: str) -> Values | None:
        """As for libraries; unknown for what other files define."""
        meaning = self._neighbours.meaning(name)
        return super().returned(meaning) if isinstance(meaning, str) else None

    def takes_module(self, name: str) -> bool:
        """As for libraries; for other files, `uses_arguments` tells."""
        meaning = self._neighbours.meaning(name)
        return isinstance(meaning, str) and super().takes_module(meaning)

    def uses_arguments(self, name: str) -> bool:
        """Whether a function or class of another file may use something as a module."""
        meaning = self._neighbours.meaning(name)
        uses = isinstance(meaning, (Class, Function)) and self._neighbours.given.uses_modules(meaning)
        self._neighbours.has_met_use |= uses
        return uses

    def makes_objects(self, name: str) -> bool:
        """As for libraries; for a class of another file, whether a base outside the project does."""
        return any(map(super().makes_objects, self._in_libraries(name)))

    def holding(self, name: str) -> Holding | None:
        """As for libraries; for a class of another file, what a base outside the project holds."""
        return next(filter(None, map(super().holding, self._in_libraries(name))), None)

    def may_register(self, name: str) -> bool:
        """As for libraries; functions of other files may."""
        meaning = self._neighbours.meaning(name)
        return super().may_register(meaning) if isinstance(meaning, str) else True

    def nature_of_base(self, name: str) -> Nature:
        """The nature of a class whose base is `name`. The outline of a module class does not tell its parameters."""
        meaning = self._neighbours.meaning(name)
        if isinstance(meaning, str):
            return super().nature_of_base(meaning)
        return self._neighbours.given.by(meaning) if isinstance(meaning, Class) else Nature.UNKNOWN

    def origin(self, name: str) -> Origin | None:
        """As for libraries."""
        meaning = self._neighbours.meaning(name)
        return super().origin(meaning) if isinstance(meaning, str) else None

    def _in_libraries(self, name: str) -> Iterable[str]:
        meaning = self._neighbours.meaning(name)
        if isinstance(meaning, Class):
            return filter(None, self._neighbours.hierarchy.library_bases(meaning))
        return [meaning] if isinstance(meaning, str) else []
