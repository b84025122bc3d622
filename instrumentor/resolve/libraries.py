"""The targets of imports, found and read once for many scripts."""

from __future__ import annotations

from pathlib import Path

from instrumentor.resolve.facts_cache import FactsCache
from instrumentor.resolve.installed_files import InstalledFiles
from instrumentor.resolve.module_facts import ModuleFacts
from instrumentor.resolve.module_reader import facts_version
from instrumentor.resolve.outline_cache import OutlineCache
from instrumentor.resolve.search_path import SearchPaths
from instrumentor.resolve.unit_cache import UnitCache


class Libraries:
    """The imports of many scripts. What was read for one is reused for the next.

    Attributes:
        search: the import paths of scripts.
        units: recently parsed files of their projects.
    """

    def __init__(self) -> None:
        self.search = SearchPaths()
        self.units = UnitCache()
        self._outlines: dict[str | None, OutlineCache] = {}
        self._found: dict[tuple[tuple[str, ...], str | None], InstalledFiles] = {}

    @property
    def parsed_bytes(self) -> int:
        """The amount of project source parsed so far."""
        return self.units.parsed_bytes

    @property
    def dropped_bytes(self) -> int:
        """The amount of source dropped from the caches of parsed files and outlines."""
        return self.units.dropped_bytes + sum(each.dropped_bytes for each in self._outlines.values())

    def at(self, folders: tuple[str, ...], cache: str | None) -> InstalledFiles:
        """The packages in some folders; `cache` is the folder that stores what is read between runs."""
        key = (folders, cache)
        if key not in self._found:
            facts = None if cache is None else FactsCache(Path(cache), "modules", facts_version(), ModuleFacts)
            self._found[key] = InstalledFiles([Path(folder) for folder in folders], facts)
        return self._found[key]

    def outlines(self, cache: str | None) -> OutlineCache:
        """The outlines of the projects' files; `cache` is the folder that stores them between runs."""
        if cache not in self._outlines:
            self._outlines[cache] = OutlineCache(self.units, None if cache is None else Path(cache))
        return self._outlines[cache]
