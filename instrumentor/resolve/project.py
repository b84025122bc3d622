"""The files of a project: finding and parsing them, and looking names up across them."""

from __future__ import annotations

import builtins
import posixpath
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from instrumentor.errors import InstrumentError
from instrumentor.resolve import catalogue
from instrumentor.resolve.added_folders import added_folders
from instrumentor.resolve.knowledge import Knowledge
from instrumentor.resolve.late_imports import late_imports
from instrumentor.resolve.unit import (
    SCRIPT,
    Class,
    Function,
    Unit,
    index_unit,
)
from instrumentor.settings import Settings
from instrumentor.source.source_text import decode, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from instrumentor.resolve.installed import ModuleFinder

# Projects are small where scripts are. The limit keeps a stray import of a huge neighbour from costing minutes. With 48
# files, five of 155 scripts get other results, mostly needless proxies, and the time grows by a quarter. Most candidate
# paths for a library's name lead to no file and cost next to nothing.
MAX_UNITS = 36
# The limit for a program whose files are all instrumented.
MAX_PROGRAM_UNITS = 200
# With star imports, a name may be in many files. After this many paths, it is no longer searched for.
_MAX_GUESSED_PATHS = 200


class UnitFinder(Protocol):
    """Finds units by their path, relative to the script, and their content."""

    def find(self, name: str, content: bytes, parse: Callable[[], Unit | None]) -> Unit | None:
        """The unit of a file, or the requested part of it; None if the file cannot be parsed."""
        ...


@dataclass(frozen=True)
class Sources:
    """The sources of a script's imports.

    Attributes:
        read: reads a file by its path relative to the script's directory (`net.py`, `models/resnet.py`); returns None
            if there is no such file.
        roots: the folders for absolute imports, relative to the script's directory, in search order.
        installed: the modules of installed packages.
        parsed: caches files read for other scripts; None to parse everything.
        is_script: whether a path leads to the script itself, which another file may import. Python then runs it again
            as a separate module, but the same instrumented text must serve both.
        called: the script's top-level functions that other given files call; None if the users of the script are
            unknown.
        modules_in: the names of the modules and packages in a folder relative to the script's directory.
    """

    read: Callable[[str], bytes | None] | None = None
    roots: tuple[str, ...] = ("",)
    installed: ModuleFinder | None = None
    parsed: UnitFinder | None = None
    is_script: Callable[[str], bool] = lambda _path: False
    called: frozenset[str] | None = None
    modules_in: Callable[[str], Sequence[str]] = lambda _folder: ()


class Project:
    """The units to which a script's imports lead, each read once.

    Args:
        script: the script.
        settings: the user's additions to the catalogue.
        sources: the project's other files and the installed packages; None to use only the catalogue.
        max_units: the maximum number of files to read, besides the script.
    """

    def __init__(
        self,
        script: Unit,
        settings: Settings | None = None,
        sources: Sources | None = None,
        *,
        max_units: int = MAX_UNITS,
    ) -> None:
        self._max_units = max_units
        self.script = script
        self._sources = sources or Sources()
        self.knowledge = Knowledge(settings or Settings(), self._sources.installed)
        self.units: dict[str, Unit | None] = {SCRIPT: script}
        self.root_of: dict[str, str] = {}
        self._lookups: dict[tuple[str, str], Class | Function | Unit | str | None] = {}
        self._members: dict[tuple[str, str], Class | Function | Unit | str | None] = {}
        self._starred: dict[tuple[str, str], list[Unit]] = {}
        self._read_units = 0
        self._run_as_main = {SCRIPT}
        added = added_folders(script.tree, script.parents, script.imports)
        self._roots = tuple(dict.fromkeys((*self._sources.roots, *added)))

    def lookup(self, unit: Unit, dotted: str) -> Class | Function | Unit | str | None:
        """The meaning of an imported dotted name.

        Returns:
            A class, function or unit of the project; a dotted name of a library; None for a project's variable, or for
            a name that its unit does not have.
        """
        key = (unit.name, dotted)
        if key not in self._lookups:
            self._lookups[key] = self._lookup(unit, dotted, depth=12)
        return self._lookups[key]

    def member(self, unit: Unit, name: str) -> Class | Function | Unit | str | None:
        """The meaning of `name` at the top level of a unit."""
        key = (unit.name, name)
        if key not in self._members:
            self._members[key] = self._member(unit, name, depth=12)
        return self._members[key]

    def starred(self, unit: Unit, name: str) -> list[Unit]:
        """The files of whose variables a name may be one, by direct or indirect star imports; the likeliest first."""
        key = (unit.name, name)
        if key not in self._starred:
            self._starred[key] = [] if name.startswith("_") else self._find_starred(unit, name, depth=12)
        return self._starred[key]

    def _find_starred(self, unit: Unit, name: str, depth: int) -> list[Unit]:
        found: list[Unit] = []
        for star in reversed(unit.stars if depth else ()):
            source = self._lookup(unit, star, depth - 1, is_guess=True)
            if isinstance(source, Unit):
                found += [source] if name in source.stored else self._find_starred(source, name, depth - 1)
        return found

    def names(self, unit: Unit) -> list[str]:
        """The names that a unit defines and imports, including by star imports."""
        found: dict[str, None] = {}
        pending, seen = [unit], {unit.name}
        while pending:
            each = pending.pop()
            names = (*each.functions, *each.classes, *each.imports)
            found.update(dict.fromkeys(name for name in names if each is unit or not name.startswith("_")))
            sources = [self._lookup(each, star, depth=12, is_guess=True) for star in each.stars]
            pending += [source for source in sources if isinstance(source, Unit) and source.name not in seen]
            seen.update(source.name for source in pending)
        return list(found)

    def class_at(self, key: str) -> Class | None:
        """The class with a key, in a file read so far; None if there is none."""
        unit = self.units.get(key.partition(":")[0])
        return None if unit is None else unit.class_by_key.get(key)

    def imported_units(self) -> list[Unit]:
        """The project's files that run with the script: all that its imports lead to, except itself.

        Includes imports by calls, as far as the beginnings of the modules' names are constant.
        """
        found: dict[str, Unit] = {}
        pending = [self.script]
        while pending:
            unit = pending.pop(0)
            others = (name for names in unit.alternatives.values() for name in names)
            direct = (*unit.imports.values(), *others, *unit.submodules, *unit.stars)
            late = list(self._imported_late(unit))
            for dotted in (*direct, *(name for name, _ in late)):
                level = len(dotted) - len(dotted.lstrip("."))
                parts = dotted[level:].split(".")
                if not level and self._is_library(parts[0]):
                    continue
                for count in range(len(parts) + 1):
                    prefix = dotted[:level] + ".".join(parts[:count])
                    target = self.lookup(unit, prefix) if prefix else None
                    reached = target.unit if isinstance(target, (Class, Function)) else target
                    if isinstance(reached, Unit) and reached.name not in found and reached is not self.script:
                        found[reached.name] = reached
                        pending.append(reached)
            mains = (self.lookup(unit, dotted) for dotted, is_main in late if is_main)
            self._run_as_main.update(each.name for each in mains if isinstance(each, Unit))
        return list(found.values())

    def is_run_as_main(self, unit: Unit) -> bool:
        """Whether `if __name__ == "__main__":` is true in a file: the script, or a file that `runpy` runs as such."""
        return unit.name in self._run_as_main

    def _imported_late(self, unit: Unit) -> Iterator[tuple[str, bool]]:
        """The dotted names of the modules that calls in a file may import, and whether as the main program."""
        for each in late_imports(unit):
            is_relative = each.package.startswith(".")
            inside = each.package.lstrip(".").replace(".", "/")
            begin = each.package if each.package.endswith(".") or not each.package else f"{each.package}."
            for folder in [unit.folder] if is_relative else self._roots:
                names = self._sources.modules_in(posixpath.join(folder, inside))
                yield from ((begin + name, each.is_main) for name in names if each.name.fullmatch(name))

    def _lookup(
        self, unit: Unit, dotted: str, depth: int, *, is_guess: bool = False
    ) -> Class | Function | Unit | str | None:
        """The meaning of a dotted name, at most `depth` imports away; `is_guess` if only a star import suggests it."""
        if depth == 0:
            return None
        level = len(dotted) - len(dotted.lstrip("."))
        parts = [part for part in dotted[level:].split(".") if part]
        if not level and parts and self._is_told_by_catalogue(parts[0], dotted):
            return dotted
        folders = self._roots
        if level:
            folder = posixpath.normpath(posixpath.join(unit.folder or ".", *[".."] * (level - 1)))
            folders = ("" if folder == "." else folder,)
        places = [(folder, count) for folder in folders for count in range(len(parts), -1 if level else 0, -1)]
        for folder, count in places:
            found = self._unit_at(posixpath.join(folder, *parts[:count]), unit, is_guess=is_guess)
            if found is None:
                continue
            if not level:
                self.root_of.setdefault(found.name, folder)
            if count == len(parts):
                return found
            result: Class | Function | Unit | str | None = found
            for part in parts[count:]:
                if not isinstance(result, Unit):
                    return None
                result = self._member(result, part, depth - 1, is_guess=is_guess)
            return result
        return None if level else dotted

    def _is_told_by_catalogue(self, package: str, dotted: str) -> bool:
        """Whether the catalogue, not the project's copy of a package's sources, gives the meaning of a name.

        For scripts inside a package, its sources count. PyTorch's repository, however, has a folder named like the
        package.
        """
        is_listed = package == "torch" or dotted == package or catalogue.is_listed(dotted)
        return is_listed and self._is_library(package)

    def _is_library(self, package: str) -> bool:
        """Whether a package does not belong to the script, even if the project contains it."""
        return package in catalogue.CATALOGUED_PACKAGES and (package == "torch" or not self._is_script_in_package)

    @cached_property
    def _is_script_in_package(self) -> bool:
        return self._sources.read is not None and self._sources.read("__init__.py") is not None

    def _member(
        self, unit: Unit, name: str, depth: int, *, is_guess: bool = False
    ) -> Class | Function | Unit | str | None:
        if depth == 0:
            return None
        if name in unit.classes:
            return unit.classes[name]
        if name in unit.functions:
            return unit.functions[name]
        if name in unit.imports:
            targets = [unit.imports[name], *unit.alternatives.get(name, ())]
            meant = [self._lookup(unit, target, depth - 1, is_guess=is_guess) for target in targets]
            # Of several candidates, one in the project is the most informative.
            return next((each for each in meant if each is not None and not isinstance(each, str)), meant[0])
        for star in unit.stars:
            source = self._lookup(unit, star, depth - 1, is_guess=True)
            if isinstance(source, Unit):
                found = self._member(source, name, depth - 1, is_guess=True)
                if found is not None:
                    return found
        if _is_package(unit):
            submodule = self._unit_at(posixpath.join(unit.folder, name), unit, is_guess=is_guess)
            if submodule is not None:
                return submodule
        return self._library_member(unit, name)

    def _library_member(self, unit: Unit, name: str) -> str | None:
        """The library name that a name may mean by `from torch.nn import *`; None if something else explains it."""
        if hasattr(builtins, name):
            return None
        for star in reversed(unit.stars):
            if not star.startswith("."):
                found = self.knowledge.star_member(star, name)
                if found is not None:
                    return found
        return None

    def _unit_at(self, path: str, asking: Unit, *, is_guess: bool) -> Unit | None:
        """The unit `path.py` or `path/__init__.py`; None if there is neither, or if the limit is reached."""
        if self._sources.read is None:
            return None
        package = f"{path}/__init__.py" if path else "__init__.py"
        for name in (package, f"{path}.py") if path else (package,):
            if name not in self.units:
                if self._read_units >= self._max_units or (is_guess and len(self.units) >= _MAX_GUESSED_PATHS):
                    return None
                self.units[name] = self._read(name)
                self._read_units += self.units[name] is not None
            found = self.units[name]
            if found is not None and found is not asking:
                return found
        return None

    def _read(self, name: str) -> Unit | None:
        assert self._sources.read is not None
        content = self._sources.read(name)
        if content is None:
            return None
        if self._sources.is_script(name):
            return self.script
        parsed = self._sources.parsed
        return _parsed(name, content) if parsed is None else parsed.find(name, content, lambda: _parsed(name, content))


def _parsed(name: str, content: bytes) -> Unit | None:
    try:
        tree = parse(decode(content, source_name=name), source_name=name)
    except InstrumentError:
        return None  # a broken neighbour is not this script's fault: its names are judged by their use
    return index_unit(name, posixpath.dirname(name), tree)


def _is_package(unit: Unit) -> bool:
    return posixpath.basename(unit.name) == "__init__.py"
