"""The files of installed packages, read from their sources. Nothing is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.paths.file_state import FileState, digest_of, settled_state
from instrumentor.resolve.installed import Module
from instrumentor.resolve.module_facts import ModuleFacts
from instrumentor.resolve.module_places import ModulePlaces, read_bounded
from instrumentor.resolve.module_reader import read_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from instrumentor.resolve.facts_cache import FactsCache

_MAX_KEPT = 4_000


class InstalledFiles:
    """Finds and reads the modules in some folders; a `ModuleFinder`.

    Attributes:
        places: the locations of the modules.

    Args:
        folders: the folders that contain packages, in search order.
        cache: stores what was read between runs.
    """

    def __init__(self, folders: Sequence[Path], cache: FactsCache[ModuleFacts] | None = None) -> None:
        self.places = ModulePlaces([str(folder) for folder in folders])
        self._cache = cache
        self._modules: dict[str, Module | None] = {}
        self._states: dict[str, FileState] = {}

    def exists(self, name: str) -> bool:
        """Whether there is such a module."""
        return self.places.find(name) is not None

    def find(self, name: str) -> Module | None:
        """The module; None if there is none or if it is not readable Python."""
        if name not in self._modules:
            if len(self._modules) >= _MAX_KEPT:
                self._modules.clear()
            self._modules[name] = self._read(name)
        return self._modules[name]

    def mentions(self, name: str, word: str) -> bool:
        """Whether a module's text contains `word` or a star import."""
        place = self.places.find(name)
        content = self._content(place.file) if place is not None and place.file is not None else None
        return content is not None and (word.encode() in content or b"import *" in content)

    def dependencies(self, names: Iterable[str]) -> Iterator[FileState]:
        """The files behind the answers about some modules, in the state in which they were read."""
        for name in names:
            place = self.places.find(name)
            if place is not None and place.file in self._states:
                yield self._states[place.file]

    def _content(self, file: str) -> bytes | None:
        state = settled_state(file)
        content = read_bounded(file)
        if content is not None and file not in self._states:
            self._states[file] = FileState(file, digest_of(content), *state)
        return content

    def _read(self, name: str) -> Module | None:
        place = self.places.find(name)
        if place is None:
            return None
        if place.file is None:
            return Module(name, place.shown, is_package=True, facts=ModuleFacts({}, []))
        content = self._content(place.file)
        facts = None if content is None else self._facts(content)
        return None if facts is None else Module(name, place.shown, bool(place.folders), facts)

    def _facts(self, content: bytes) -> ModuleFacts | None:
        known = self._cache.load(content) if self._cache is not None else None
        if known is not None:
            return known
        try:
            facts = read_facts(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None  # for another version of Python, or no Python: its names are judged by their use
        if self._cache is not None:
            self._cache.store(content, facts)
        return facts
