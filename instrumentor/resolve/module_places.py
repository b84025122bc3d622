"""Locations of the modules of installed packages. Folders are listed; nothing is imported.

The search follows Python's: packages, modules, namespace packages across folders, `.pth` files (only their paths, as
their `import` lines are code), and the maps of editable installs. Modules without a Python source, such as extension
modules, are ignored.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# A file with hundreds of thousands of lines defines no model.
_MAX_BYTES = 8_000_000


class Place(NamedTuple):
    """The location of a module.

    Attributes:
        file: its source; None for a namespace package.
        folders: the folders of its submodules.
        shown: the file's path below the searched folder.
    """

    file: str | None
    folders: tuple[str, ...]
    shown: str


class Lookup(NamedTuple):
    """The result of looking up a module, for comparison.

    Attributes:
        name: the module's dotted name.
        found: its file, or the folders of a namespace package, as one string; empty if it was not found.
    """

    name: str
    found: str


class ModulePlaces:
    """Finds modules in some folders, each of which is listed only once.

    Args:
        folders: the folders that contain packages, in search order.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._names: dict[str, frozenset[str] | None] = {}
        self._folders = tuple(self._with_path_files(folders))
        self._mapped = self._editable_maps(folders)
        self._places: dict[str, Place | None] = {}

    def find(self, name: str) -> Place | None:
        """The location of a module; None if there is none."""
        if name not in self._places:
            self._places[name] = self._search(name)
        return self._places[name]

    def look_up(self, name: str) -> Lookup:
        """The same as a value that can be compared with a later one."""
        place = self.find(name)
        return Lookup(name, "" if place is None else place.file or "\0".join(("", *place.folders)))

    def _search(self, name: str) -> Place | None:
        above, _, last = name.rpartition(".")
        if not last.isidentifier():
            return None
        if above:
            parent = self.find(above)
            if parent is None:
                return None
            folders = parent.folders
        elif last in self._mapped:
            folder, base = os.path.split(self._mapped[last])
            return self._at(folder, base, last)
        else:
            folders = self._folders
        shown = name.replace(".", "/")
        portions: list[str] = []
        for folder in folders:
            found = self._at(folder, last, shown)
            if found is not None and found.file is not None:
                return found
            if found is not None:
                portions.extend(found.folders)
        return Place(None, tuple(portions), shown) if portions else None

    def _at(self, folder: str, last: str, shown: str) -> Place | None:
        """The package, module or namespace package with a name in a folder."""
        names = self._names_in(folder)
        path = os.path.join(folder, last)  # noqa: PTH118 - of thousands of names
        is_there = names is None or last in names
        if is_there and os.path.isfile(initial := os.path.join(path, "__init__.py")):  # noqa: PTH113, PTH118
            return Place(initial, (path,), f"{shown}/__init__.py")
        if (names is None or f"{last}.py" in names) and os.path.isfile(module := f"{path}.py"):  # noqa: PTH113
            return Place(module, (), f"{shown}.py")
        return Place(None, (path,), shown) if is_there and os.path.isdir(path) else None  # noqa: PTH112

    def _names_in(self, folder: str) -> frozenset[str] | None:
        """The names in a folder; None if it may not be listed."""
        if folder not in self._names:
            self._names[folder] = list_names(folder)
        return self._names[folder]

    def _with_path_files(self, folders: Iterable[str]) -> list[str]:
        """The folders, each followed by those that its `.pth` files name."""
        found: dict[str, None] = {}
        for folder in folders:
            found[folder] = None
            for file in self._listed(folder, ".pth"):
                for line in (read_bounded(file) or b"").decode("utf-8", errors="replace").splitlines():
                    entry = line.strip()
                    if entry and not entry.startswith(("#", "import ", "import\t")) and "\0" not in entry:
                        path = Path(folder, entry)
                        if path.is_dir():
                            found[str(path)] = None
        return list(found)

    def _editable_maps(self, folders: Iterable[str]) -> dict[str, str]:
        """The locations of packages that setuptools installed in editable mode: their finders contain a `MAPPING`."""
        found: dict[str, str] = {}
        for folder in folders:
            for file in self._listed(folder, "_finder.py"):
                if os.path.basename(file).startswith("__editable__"):  # noqa: PTH119
                    found.update(_mapping(read_bounded(file) or b""))
        return found

    def _listed(self, folder: str, ending: str) -> list[str]:
        names = self._names_in(folder) or ()
        return [os.path.join(folder, name) for name in sorted(names) if name.endswith(ending)]  # noqa: PTH118


def list_names(folder: str) -> frozenset[str] | None:
    """The names in a folder, empty if there is no folder; None if it may not be listed."""
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except (OSError, ValueError):  # a folder may be searchable but not listable
        return None


def read_bounded(file: str) -> bytes | None:
    """The bytes of a file; None if it cannot be read or is far too long for a module."""
    try:
        path = Path(file)
        return path.read_bytes() if path.stat().st_size <= _MAX_BYTES else None
    except (OSError, ValueError):
        return None


def _mapping(content: bytes) -> Iterator[tuple[str, str]]:
    """The entries of a finder's `MAPPING`, parsed from its text."""
    import ast  # only needed for editable installs

    try:
        for statement in ast.parse(content).body:
            if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
                target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
                mapping = ast.literal_eval(statement.value) if getattr(target, "id", "") == "MAPPING" else {}
                for name, path in mapping.items() if isinstance(mapping, dict) else ():
                    yield str(name), str(Path(str(path)))
    except (SyntaxError, ValueError, TypeError):
        return  # not made by setuptools
