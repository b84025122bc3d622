"""The files of installed packages: where an interpreter would find their modules, and what these define.

Nothing is imported. Folders are searched as Python does it: packages, modules, namespace packages over several
folders, `.pth` files (their paths only: their `import` lines are code), and the maps of editable installs.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor.paths.file_state import FileState, digest_of, settled_state
from instrumentor.resolve.installed import Module
from instrumentor.resolve.module_facts import ModuleFacts
from instrumentor.resolve.module_reader import read_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from instrumentor.resolve.facts_cache import FactsCache

# Of hundreds of thousands of lines in one file nothing is a model.
_MAX_BYTES = 8_000_000
_MAX_KEPT = 4_000


@dataclass(frozen=True)
class _Location:
    """Where a module lies.

    Attributes:
        file: its source; None for a namespace package.
        folders: where its submodules lie.
        shown: the file's path below the folder that was searched.
    """

    file: Path | None
    folders: tuple[Path, ...]
    shown: str


class InstalledFiles:
    """Finds and reads the modules in some folders; a `ModuleFinder`.

    Args:
        folders: where packages lie, in the order of the search.
        cache: keeps what was read between runs.
    """

    def __init__(self, folders: Sequence[Path], cache: FactsCache[ModuleFacts] | None = None) -> None:
        self._filled_by_installers = tuple(folders)
        self._folders = tuple(_with_path_files(folders))
        self._mapped = _editable_maps(folders)
        self._cache = cache
        self._locations: dict[str, _Location | None] = {}
        self._modules: dict[str, Module | None] = {}
        self._states: dict[Path, FileState] = {}

    def exists(self, name: str) -> bool:
        """Whether there is such a module."""
        return self._locate(name) is not None

    def find(self, name: str) -> Module | None:
        """The module; None where there is none, or where it is not Python that can be read."""
        if name not in self._modules:
            if len(self._modules) >= _MAX_KEPT:
                self._modules.clear()
            self._modules[name] = self._read(name)
        return self._modules[name]

    def mentions(self, name: str, word: str) -> bool:
        """Whether a module's text holds `word`, or imports everything from somewhere."""
        location = self._locate(name)
        content = self._content(location.file) if location is not None and location.file is not None else None
        return content is not None and (word.encode() in content or b"import *" in content)

    def dependencies(self, names: Iterable[str]) -> Iterator[FileState]:
        """The files that the answers about some modules came from, as they were when they were read.

        What installers bring and take shows in the times of the folders they fill. Elsewhere, in packages that are
        installed to be edited, what is not there is told too, without a digest.
        """
        for name in names:
            location = self._locate(name)
            if location is None:
                yield from self._missing(name)
                continue
            if location.file in self._states:
                yield self._states[location.file]
            for folder in location.folders if location.file is None else ():
                if self._is_edited(folder):
                    yield FileState(str(folder / "__init__.py"), None)
            if location.file is not None and not location.folders and self._is_edited(location.file):
                yield FileState(str(location.file.with_suffix("")), None)  # a package comes before a module

    def _missing(self, name: str) -> Iterator[FileState]:
        """What was looked for in folders that people edit, as far as there are such folders on the way to a module."""
        above, _, last = name.rpartition(".")
        while above and self._locate(above) is None:
            above, _, last = above.rpartition(".")
        parent = self._locate(above) if above else None
        for folder in self._folders if parent is None else parent.folders:
            if self._is_edited(folder):
                yield FileState(str(folder / last), None)
                yield FileState(str(folder / f"{last}.py"), None)

    def _is_edited(self, path: Path) -> bool:
        return not any(folder == path or folder in path.parents for folder in self._filled_by_installers)

    def _content(self, file: Path) -> bytes | None:
        state = settled_state(str(file))
        content = _content(file)
        if content is not None and file not in self._states:
            self._states[file] = FileState(str(file), digest_of(content), *state)
        return content

    def _read(self, name: str) -> Module | None:
        location = self._locate(name)
        if location is None:
            return None
        if location.file is None:
            return Module(name, location.shown, is_package=True, facts=ModuleFacts({}, []))
        content = self._content(location.file)
        facts = None if content is None else self._facts(content)
        return None if facts is None else Module(name, location.shown, bool(location.folders), facts)

    def _facts(self, content: bytes) -> ModuleFacts | None:
        known = self._cache.load(content) if self._cache is not None else None
        if known is not None:
            return known
        try:
            facts = read_facts(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None  # for another version of Python, or no Python at all: its names are judged by their use
        if self._cache is not None:
            self._cache.store(content, facts)
        return facts

    def _locate(self, name: str) -> _Location | None:
        if name not in self._locations:
            self._locations[name] = self._search(name)
        return self._locations[name]

    def _search(self, name: str) -> _Location | None:
        above, _, last = name.rpartition(".")
        if not last.isidentifier():
            return None
        if above:
            parent = self._locate(above)
            if parent is None:
                return None
            folders: tuple[Path, ...] = parent.folders
        elif last in self._mapped:
            return _at(self._mapped[last], last)
        else:
            folders = self._folders
        portions: list[Path] = []
        for folder in folders:
            found = _at(folder / last, name.replace(".", "/"))
            if found is not None and found.file is not None:
                return found
            if found is not None:
                portions.extend(found.folders)
        return _Location(None, tuple(portions), name.replace(".", "/")) if portions else None


def _at(path: Path, shown: str) -> _Location | None:
    """The package, module or namespace package at a path without its ending."""
    initial = path / "__init__.py"
    if initial.is_file():
        return _Location(initial, (path,), f"{shown}/__init__.py")
    module = path.with_name(f"{path.name}.py")
    if module.is_file():
        return _Location(module, (), f"{shown}.py")
    return _Location(None, (path,), shown) if path.is_dir() else None


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes() if file.stat().st_size <= _MAX_BYTES else None
    except (OSError, ValueError):
        return None


def _with_path_files(folders: Iterable[Path]) -> list[Path]:
    """The folders, each followed by those that the `.pth` files in it name."""
    found: dict[Path, None] = {}
    for folder in folders:
        found[folder] = None
        for file in _listed(folder, ".pth"):
            for line in (_content(file) or b"").decode("utf-8", errors="replace").splitlines():
                entry = line.strip()
                if entry and not entry.startswith(("#", "import ", "import\t")) and "\0" not in entry:
                    path = folder / entry
                    if path.is_dir():
                        found[path] = None
    return list(found)


def _editable_maps(folders: Iterable[Path]) -> dict[str, Path]:
    """Where the packages lie that setuptools installed to be edited: their finders hold a `MAPPING`, read as text."""
    files = [file for folder in folders for file in _listed(folder, "_finder.py")]
    found: dict[str, Path] = {}
    for file in files:
        if file.name.startswith("__editable__"):
            try:
                found.update(_mapping(ast.parse(_content(file) or b"")))
            except (SyntaxError, ValueError, TypeError):
                continue  # of another make than setuptools'
    return found


def _mapping(tree: ast.Module) -> Iterator[tuple[str, Path]]:
    for statement in tree.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            mapping = ast.literal_eval(statement.value) if getattr(target, "id", "") == "MAPPING" else {}
            for name, path in mapping.items() if isinstance(mapping, dict) else ():
                yield str(name), Path(str(path))


def _listed(folder: Path, ending: str) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if entry.name.endswith(ending))
    except OSError:
        return []
