"""Where a script's imports are looked up: its own folder, its project, and the installed packages."""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from instrumentor.resolve.module_places import list_names

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT_MARKS = ("pyproject.toml", "setup.cfg", "setup.py", ".git", ".hg")
# The limit on cached folders. When it is reached, all are dropped.
_MAX_REMEMBERED = 50_000


class Packages(msgspec.Struct, frozen=True):
    """The locations of a script's packages.

    Attributes:
        folders: the folders, in search order.
    """

    folders: tuple[str, ...] = ()


class SearchPaths:
    """Finds where scripts' imports are looked up. Each folder is examined once.

    Args:
        chosen: the user's choice of package folders or environments; empty for the active ones.
    """

    def __init__(self, chosen: Sequence[str] = ()) -> None:
        self._chosen = [Path(path) for path in chosen]
        self._packages: dict[str | None, Packages] = {}
        self._real: dict[str, str] = {}
        self._projects: dict[str, str | None] = {}
        self._tops: dict[str, str] = {}
        self._has_src: dict[str, bool] = {}
        self._names: dict[str, frozenset[str] | None] = {}

    def packages(self, directory: str) -> Packages:
        """The packages of the scripts in a folder."""
        project = None if self._chosen else self._project(self._real_path(os.path.abspath(directory)))  # noqa: PTH100
        if project not in self._packages:
            folders = package_folders(self._chosen, None if project is None else Path(project))
            self._packages[project] = Packages(tuple(map(str, folders)))
        return self._packages[project]

    def roots(self, directory: str) -> tuple[str, ...]:
        """The folders from which absolute imports of the scripts in a folder start, in search order.

        First the folder itself, as when Python runs a script; then the folder above its outermost package, as for
        `python -m package.script`; then the project's root and its `src` folder, as when the project is installed.

        Returns:
            Paths relative to the folder, with `/`; the empty path for the folder itself.
        """
        real = self._real_path(os.path.abspath(directory))  # noqa: PTH100
        return tuple(dict.fromkeys(_relative(root, real) for root in self._root_folders(real)))

    def _root_folders(self, real: str) -> list[str]:
        roots = [real, self._above_package(real)]
        project = self._project(real)
        if project is not None:
            source = os.path.join(project, "src")  # noqa: PTH118
            if project not in self._has_src:
                self._has_src[project] = os.path.isdir(source)  # noqa: PTH112
            roots += [project, source] if self._has_src[project] else [project]
        return roots

    def shadows(self, directory: str, name: str) -> bool:
        """Whether the scripts in a folder may import something of their project under the name of a library."""
        real = self._real_path(os.path.abspath(directory))  # noqa: PTH100
        return any(self._may_have(root, name) for root in self._root_folders(real))

    def _may_have(self, folder: str, name: str) -> bool:
        if folder not in self._names:
            self._names[folder] = list_names(folder)
        names = self._names[folder]
        return names is None or not names.isdisjoint((name, f"{name}.py"))

    def _real_path(self, path: str) -> str:
        """An absolute path with all links resolved."""
        if path not in self._real:
            self._make_room()
            above, name = os.path.split(path)
            is_plain = above != path and not os.path.islink(path)  # noqa: PTH114
            self._real[path] = os.path.join(self._real_path(above), name) if is_plain else os.path.realpath(path)  # noqa: PTH118
        return self._real[path]

    def _project(self, real: str) -> str | None:
        """The nearest folder, at or above the given one, that looks like a project's root; None if there is none."""
        if real not in self._projects:
            above = os.path.dirname(real)  # noqa: PTH120
            if any(os.path.exists(os.path.join(real, mark)) for mark in _ROOT_MARKS):  # noqa: PTH110, PTH118
                self._projects[real] = real
            else:
                self._projects[real] = self._project(above) if above != real else None
        return self._projects[real]

    def _above_package(self, real: str) -> str:
        """The folder above the outermost package that contains a folder; the folder itself if there is none."""
        if real not in self._tops:
            above = os.path.dirname(real)  # noqa: PTH120
            is_package = above != real and os.path.isfile(os.path.join(real, "__init__.py"))  # noqa: PTH113, PTH118
            self._tops[real] = self._above_package(above) if is_package else real
        return self._tops[real]

    def _make_room(self) -> None:
        if len(self._real) >= _MAX_REMEMBERED:
            for each in (self._real, self._projects, self._tops, self._names):
                each.clear()


def _relative(root: str, directory: str) -> str:
    if root == directory:
        return ""
    prefix = root if root.endswith(os.sep) else root + os.sep
    if directory.startswith(prefix):
        return "/".join([".."] * (directory.count(os.sep, len(prefix)) + 1))
    return os.path.relpath(root, directory).replace(os.sep, "/")


def package_folders(chosen: Sequence[Path], project: Path | None) -> list[Path]:
    """The folders in which packages are looked up.

    Args:
        chosen: the user's choice of package folders or environments. If given, nothing else is used.
        project: the project's root folder, whose `.venv` or `venv` is used.

    Returns:
        The chosen folders; otherwise the existing ones of the active environment, of the project's, and of this
        interpreter, in this order.
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
    """The `site-packages` folders of a virtual or conda environment; empty if it is none."""
    patterns = ("lib/python3*/site-packages", "lib64/python3*/site-packages", "Lib/site-packages")
    try:
        found = [path.resolve() for pattern in patterns for path in sorted(environment.glob(pattern))]
    except OSError:
        return []
    return list(dict.fromkeys(path for path in found if path.is_dir()))
