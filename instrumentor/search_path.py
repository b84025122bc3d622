"""Where a script's imports are looked up: its own folder, its project, and the packages installed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor.installed_files import InstalledFiles, package_folders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from instrumentor.facts_cache import FactsCache

_ROOT_MARKS = ("pyproject.toml", "setup.cfg", "setup.py", ".git", ".hg")


@dataclass(frozen=True)
class Surroundings:
    """What a script can import.

    Attributes:
        roots: the folders of its project that absolute imports start from, relative to its own, in order.
        installed: the packages.
    """

    roots: tuple[str, ...]
    installed: InstalledFiles


class SearchPath:
    """Finds out what lies around scripts; what was read for one is there for the next.

    Args:
        chosen: the folders of packages, or the environments, that the user names; empty for those that are active.
        cache: keeps what was read between runs.
    """

    def __init__(self, chosen: Sequence[str] = (), cache: FactsCache | None = None) -> None:
        self._chosen = [Path(path) for path in chosen]
        self._cache = cache
        self._installed: dict[tuple[Path, ...], InstalledFiles] = {}
        self._surroundings: dict[Path, Surroundings] = {}

    def around(self, directory: Path) -> Surroundings:
        """What scripts in a folder can import."""
        directory = Path(os.path.realpath(directory))
        if directory not in self._surroundings:
            project = project_root(directory)
            folders = tuple(package_folders(self._chosen, project))
            if folders not in self._installed:
                self._installed[folders] = InstalledFiles(folders, self._cache)
            self._surroundings[directory] = Surroundings(import_roots(directory, project), self._installed[folders])
        return self._surroundings[directory]


def project_root(directory: Path) -> Path | None:
    """The nearest folder at or above one that looks like a project's root; None without any."""
    for each in (directory, *directory.parents):
        if any((each / mark).exists() for mark in _ROOT_MARKS):
            return each
    return None


def import_roots(directory: Path, project: Path | None) -> tuple[str, ...]:
    """The folders that absolute imports of a script start from, relative to its own, in the order of the search.

    Its own folder comes first, as when Python runs the script; then the folder above the package that it is part of,
    as for `python -m package.script`; then the project's root and the `src` folder in it, as when it is installed.
    """
    package = directory
    while (package / "__init__.py").is_file() and package.parent != package:
        package = package.parent
    roots = [directory, package]
    if project is not None:
        roots += [project, project / "src"]
    found = dict.fromkeys(os.path.relpath(root, directory).replace(os.sep, "/") for root in roots if root.is_dir())
    return tuple("" if root == "." else root for root in found)
