"""Which files of the disk the imports of files lead to, whichever of them is the script."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.resolve.module_places import list_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.resolve.search_path import SearchPaths


class Target(NamedTuple):
    """What a dotted name leads to.

    Attributes:
        path: the file; empty for a folder without an `__init__.py`.
        rest: the names in it.
    """

    path: str
    rest: tuple[str, ...]


class ImportPlaces:
    """Finds the files that imports may lead to.

    A script looks all imports up in its own folders, those of the files that it leads to included. So an absolute one
    may lead to several files: by the folders of its own file, and by those of the given files above it.

    Args:
        search: says where the imports of a file start from.
        folders: those of the files given.
    """

    def __init__(self, search: SearchPaths, folders: Iterable[str]) -> None:
        self._search = search
        self._given = set(folders)
        self._added: dict[str, None] = {}
        self._listed: dict[str, frozenset[str]] = {}
        self._roots: dict[str, tuple[str, ...]] = {}
        self._found: dict[tuple[str, str], Target | None] = {}

    def add(self, folder: str) -> None:
        """Take a folder, too, for one that imports start from."""
        if folder not in self._added:
            self._added[folder] = None
            self._roots.clear()

    @property
    def folders_read(self) -> list[str]:
        """The folders whose names were looked at."""
        return list(self._listed)

    def find(self, path: str, dotted: str) -> list[Target]:
        """The files of the project that a name may lead to as a file imports it; none for a library's."""
        name = dotted.lstrip(".")
        level = len(dotted) - len(name)
        folder = os.path.dirname(path)  # noqa: PTH120
        roots: tuple[str, ...]
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)  # noqa: PTH120
            roots = (folder,)
        else:
            roots = self._roots_of(folder)
        found = (self._below(root, name) for root in roots)
        return list(dict.fromkeys(each for each in found if each is not None and each.path != path))

    def _roots_of(self, folder: str) -> tuple[str, ...]:
        if folder not in self._roots:
            own = self._search.roots(folder)
            roots = [os.path.normpath(os.path.join(folder, each)) for each in own]  # noqa: PTH118
            above = folder
            while (higher := os.path.dirname(above)) != above:  # noqa: PTH120
                above = higher
                if above in self._given:
                    roots.append(above)
            self._roots[folder] = tuple(dict.fromkeys((*roots, *self._added)))
        return self._roots[folder]

    def _below(self, root: str, name: str) -> Target | None:
        """The file that a name leads to from a folder, with as many of its parts as there are."""
        key = (root, name)
        if key not in self._found:
            self._found[key] = self._search_below(root, name)
        return self._found[key]

    def _search_below(self, root: str, name: str) -> Target | None:
        parts = name.split(".") if name else []
        found = self._package(root, tuple(parts)) if not parts else None
        folder = root
        for count, part in enumerate(parts, 1):
            names = self._names(folder)
            rest = tuple(parts[count:])
            inner = os.path.join(folder, part)  # noqa: PTH118
            if part in names:
                package = self._package(inner, rest)
                if package is not None:
                    found, folder = package, inner
                    continue
            if f"{part}.py" in names:
                return Target(f"{inner}.py", rest)
            if part not in names:
                break
            folder = inner
        return found

    def _package(self, folder: str, rest: tuple[str, ...]) -> Target | None:
        file = os.path.join(folder, "__init__.py")  # noqa: PTH118
        return Target(file, rest) if "__init__.py" in self._names(folder) else None

    def _names(self, folder: str) -> frozenset[str]:
        if folder not in self._listed:
            self._listed[folder] = list_names(folder) or frozenset()
        return self._listed[folder]
