"""Where a script's imports are looked up: its own folder, its project, and the packages installed."""

from __future__ import annotations

import hashlib
import os
import site
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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


def package_folders(chosen: Sequence[Path], project: Path | None) -> list[Path]:
    """The folders in which packages are looked up.

    Args:
        chosen: what the user names: such folders, or environments that have them; they come alone.
        project: the project's root folder, whose own `.venv` or `venv` counts.

    Returns:
        The chosen ones; else those of the active environment, of the project's, and of this interpreter, in this
        order, of which those that exist.
    """
    if chosen:
        return [folder for path in chosen for folder in (environment_folders(path) or [path])]
    environments = [os.environ[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if os.environ.get(name)]
    if project is not None:
        environments += [str(project / name) for name in (".venv", "venv")]
    found: dict[Path, None] = {}
    for environment in environments:
        found.update(dict.fromkeys(environment_folders(Path(environment))))
    own = [Path(path) for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    own += [Path(path) for path in site.getsitepackages()]
    found.update(dict.fromkeys(path for path in own if path.is_dir()))
    return list(found)


def environment_folders(environment: Path) -> list[Path]:
    """The `site-packages` of a virtual or conda environment; empty where the folder is none."""
    patterns = ("lib/python3*/site-packages", "lib64/python3*/site-packages", "Lib/site-packages")
    try:
        found = [path.resolve() for pattern in patterns for path in sorted(environment.glob(pattern))]
    except OSError:
        return []
    return list(dict.fromkeys(path for path in found if path.is_dir()))
