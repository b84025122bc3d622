"""The files of a run that need no analysis, and what that was told by: kept, so that it is told once.

The answer depends on every file that was read for it, on the folders in which imports were looked up, and on where
installed modules were found. While all of these are as they were, it is not worked out again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from instrumentor.notebooks.cells import is_notebook
from instrumentor.paths.file_state import FileState, digest_of, settled_state, stat_file
from instrumentor.resolve.facts_cache import FactsCache, version_of
from instrumentor.resolve.module_places import Lookup, ModulePlaces, list_names, read_bounded
from instrumentor.source.undo import may_be_instrumented, original_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

    from instrumentor.engine.outcome import Task
    from instrumentor.resolve.installed import Module
    from instrumentor.resolve.installed_files import InstalledFiles
    from instrumentor.resolve.search_path import Packages, SearchPaths


class Dismissed(NamedTuple):
    """A file in which nothing is to be wrapped.

    Attributes:
        source: the file as it was read.
        lines: how many it has.
    """

    source: FileState
    lines: int


class _Answer(msgspec.Struct, frozen=True, array_like=True):
    """What was found out of some files.

    Attributes:
        files: all that were read.
        folders: those whose names were looked at, with a digest of these.
        lookups: where installed modules were looked for and found.
        dismissed: the numbers of files that need no analysis, and how many lines these have.
    """

    files: list[FileState]
    folders: list[tuple[str, bytes]]
    lookups: list[Lookup]
    dismissed: list[tuple[int, int]]


def find_dismissed(tasks: Iterable[Task], search: SearchPaths) -> Mapping[str, Dismissed]:
    """The files among some tasks that need no analysis, by their paths.

    Args:
        tasks: all of a run, or of a shard.
        search: says where the imports of files start from.
    """
    groups: dict[Packages, dict[str, Task]] = {}
    for task in tasks:
        if task.is_brief and task.path and not (is_notebook(task.shown) or os.path.islink(task.path)):  # noqa: PTH114
            folder, name = os.path.split(task.path)
            path = os.path.join(os.path.realpath(folder), name)  # noqa: PTH118
            groups.setdefault(task.packages, {})[path] = task
    found: dict[str, Dismissed] = {}
    for packages, group in groups.items():
        found.update(_Group(packages, group, search).find())
    return found


class _Group:
    """Files that import from the same packages."""

    def __init__(self, packages: Packages, tasks: Mapping[str, Task], search: SearchPaths) -> None:
        self._packages = packages
        self._tasks = tasks
        self._search = search
        cache = next(iter(tasks.values())).modules_cache
        self._cache = None if cache is None else Path(cache)
        self._states: dict[str, FileState] = {}
        self._lines: dict[str, int] = {}

    def find(self) -> dict[str, Dismissed]:
        """Those that need no analysis."""
        kept = None if self._cache is None else FactsCache(self._cache, "dismissed", _version(), _Answer)
        question = self._question()
        answer = None if kept is None else kept.load(question)
        if answer is None or not self._holds(answer):
            answer = self._work_out()
            if answer is None:
                return {}
            if kept is not None:
                kept.store(question, answer)
        files = ((answer.files[number], lines) for number, lines in answer.dismissed)
        return {self._tasks[state.path].path: Dismissed(state, lines) for state, lines in files}

    def _question(self) -> bytes:
        """What was asked: the files, and all that the answer depends on besides what is read."""
        parts = [*self._packages.folders, ""]
        for path, task in self._tasks.items():
            parts += [path, repr(task.settings), *task.called]
        return "\0".join(parts).encode(errors="surrogateescape")

    def _holds(self, answer: _Answer) -> bool:
        """Whether all is as it was."""
        for each in answer.files:
            state = stat_file(each.path)
            if state != (each.modified_ns, each.size) and (
                each.digest is None
                or (content := _read(each.path)) is None
                or digest_of(original_of(content)) != each.digest
            ):
                return False
        places = ModulePlaces(self._packages.folders)
        return all(_names_digest(folder) == names for folder, names in answer.folders) and all(
            places.look_up(each.name) == each for each in answer.lookups
        )

    def _work_out(self) -> _Answer | None:
        """Read all files and follow what they do; None where that is too much."""
        from instrumentor.code.store import FactsStore
        from instrumentor.engine.screen import Screen, is_screened
        from instrumentor.link.program import read_program
        from instrumentor.nesting import room_for_nesting
        from instrumentor.resolve.knowledge import Knowledge
        from instrumentor.resolve.libraries import Libraries
        from instrumentor.settings import Settings

        finder = _RecordingFinder(
            Libraries().at(self._packages.folders, None if self._cache is None else str(self._cache))
        )
        try:
            with room_for_nesting(), FactsStore(self._cache) as store:
                program = read_program(self._tasks, self._read, self._search, store)
                screen = Screen(program, Knowledge(Settings(), finder))
                place = {path: index for index, path in enumerate(self._states)}
                dismissed = [
                    (place[path], self._lines[path])
                    for number, path in enumerate(program.paths)
                    if path in self._tasks
                    and path in self._lines
                    and program.is_known(number)
                    and is_screened(self._tasks[path].settings)
                    and not screen.reason(
                        number, self._tasks[path].settings.wrap_factories, self._tasks[path].called.__contains__
                    )
                ]
        except (RecursionError, MemoryError):
            return None
        folders = [(each, _names_digest(each)) for each in program.places.folders_read]
        return _Answer(list(self._states.values()), folders, finder.lookups(), dismissed)

    def _read(self, path: str) -> bytes | None:
        state = settled_state(path)
        content = _read(path)
        self._states[path] = (
            FileState(path, None) if content is None else FileState(path, digest_of(original_of(content)), *state)
        )
        if content is not None and not may_be_instrumented(content):
            self._lines[path] = content.count(b"\n")
        return content


class _RecordingFinder:
    """Finds installed modules, and remembers which; a `ModuleFinder`."""

    def __init__(self, installed: InstalledFiles) -> None:
        self._installed = installed
        self._modules: set[str] = set()

    def exists(self, name: str) -> bool:
        self._modules.add(name)
        return self._installed.exists(name)

    def find(self, name: str) -> Module | None:
        self._modules.add(name)
        return self._installed.find(name)

    def mentions(self, name: str, word: str) -> bool:
        self._modules.add(name)
        return self._installed.mentions(name, word)

    def lookups(self) -> list[Lookup]:
        return [self._installed.places.look_up(name) for name in sorted(self._modules)]


def _read(path: str) -> bytes | None:
    try:
        return read_bounded(path)
    except (OSError, ValueError):
        return None


def _names_digest(folder: str) -> bytes:
    return digest_of("\0".join(sorted(list_names(folder) or ())).encode(errors="surrogateescape"))


def _version() -> str:
    from instrumentor.code import facts, lowering, method_names
    from instrumentor.engine import screen
    from instrumentor.flow import kinds, libraries, solver, uses
    from instrumentor.link import hierarchy, places, program
    from instrumentor.resolve import catalogue, knowledge

    readers: list[ModuleType] = [facts, lowering, method_names, screen, kinds, libraries, solver, uses]
    return version_of([*readers, hierarchy, places, program, catalogue, knowledge], [])
