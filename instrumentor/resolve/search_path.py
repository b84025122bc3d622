"""Where a script's imports are looked up: its own folder, its project, and the packages installed."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor.resolve.facts_cache import FactsCache
from instrumentor.resolve.installed_files import InstalledFiles, package_folders

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT_MARKS = ("pyproject.toml", "setup.cfg", "setup.py", ".git", ".hg")


@dataclass(frozen=True)
class Packages:
    """Where a script's packages lie.

    Attributes:
        folders: the folders, in the order of the search.
        digest: changes when a package is installed, upgraded or removed in one of them.
    """

    folders: tuple[str, ...] = ()
    digest: bytes = b""


class PackageSearch:
    """Finds out where the packages lie that scripts import.

    Args:
        chosen: the folders, or the environments that have them, that the user names; empty for the active ones.
    """

    def __init__(self, chosen: Sequence[str] = ()) -> None:
        self._chosen = [Path(path) for path in chosen]
        self._by_directory: dict[Path, Packages] = {}
        self._by_project: dict[Path | None, Packages] = {}

    def of(self, directory: Path) -> Packages:
        """The packages of scripts in a folder."""
        if directory not in self._by_directory:
            project = None if self._chosen else project_root(Path(os.path.realpath(directory)))
            if project not in self._by_project:
                folders = package_folders(self._chosen, project)
                # Installers add and remove entries: that shows in a folder's own time.
                times = [f"{folder}\0{folder.stat().st_mtime_ns}" for folder in folders if folder.is_dir()]
                digest = hashlib.blake2b("\0".join(times).encode("utf-8", "surrogateescape"), digest_size=16).digest()
                self._by_project[project] = Packages(tuple(map(str, folders)), digest)
            self._by_directory[directory] = self._by_project[project]
        return self._by_directory[directory]


class Libraries:
    """The installed packages of many scripts; what was read for one is there for the next."""

    def __init__(self) -> None:
        self._found: dict[tuple[tuple[str, ...], str | None], InstalledFiles] = {}

    def at(self, folders: tuple[str, ...], cache: str | None) -> InstalledFiles:
        """The packages in some folders; `cache` is the folder in which what is read is kept between runs."""
        key = (folders, cache)
        if key not in self._found:
            facts = None if cache is None else FactsCache(Path(cache))
            self._found[key] = InstalledFiles([Path(folder) for folder in folders], facts)
        return self._found[key]


def project_root(directory: Path) -> Path | None:
    """The nearest folder at or above one that looks like a project's root; None without any."""
    for each in (directory, *directory.parents):
        if any((each / mark).exists() for mark in _ROOT_MARKS):
            return each
    return None


def import_roots(directory: Path) -> tuple[str, ...]:
    """The folders that absolute imports of a script start from, relative to its own, in the order of the search.

    Its own folder comes first, as when Python runs the script; then the folder above the package that it is part of,
    as for `python -m package.script`; then the project's root and the `src` folder in it, as when it is installed.
    """
    directory = Path(os.path.realpath(directory))
    project = project_root(directory)
    package = directory
    while (package / "__init__.py").is_file() and package.parent != package:
        package = package.parent
    roots = [directory, package]
    if project is not None:
        roots += [project, project / "src"]
    found = dict.fromkeys(os.path.relpath(root, directory).replace(os.sep, "/") for root in roots if root.is_dir())
    return tuple("" if root == "." else root for root in found)
