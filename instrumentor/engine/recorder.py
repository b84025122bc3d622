"""Records what the outcome of a script depends on: the other files and installed modules that were read for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from instrumentor.paths import files
from instrumentor.paths.file_state import FileState, digest_of, digest_of_names, is_settled, settled_state, stat_file
from instrumentor.source.undo import original_of

if TYPE_CHECKING:
    from instrumentor.paths.files import Script
    from instrumentor.resolve.installed import Module
    from instrumentor.resolve.installed_files import InstalledFiles
    from instrumentor.resolve.module_places import Lookup


class Recorder:
    """Reads a project's other files and installed modules, and records which.

    Attributes:
        installed: finds and reads the modules; a `ModuleFinder`, as this is.
    """

    installed: InstalledFiles

    def __init__(self, script: Script, *, reads_originals: bool) -> None:
        """Read for `script`.

        Args:
            script: the script.
            reads_originals: read other files as they were before they were instrumented. In a tree that is instrumented
                in place, an outcome must not depend on which file comes first.
        """
        self._reads_originals = reads_originals
        self._read = files.read_siblings(script)
        self._list = files.list_siblings(script)
        self._directory = str(files.project_directory(script))
        self._seen: dict[str, FileState] = {}
        self._modules: set[str] = set()

    def read(self, relative: str) -> bytes | None:
        """The content of a file of the project, by its path relative to the script; None if there is none."""
        path = os.path.join(self._directory, relative)  # noqa: PTH118
        state = stat_file(path)
        content = None if state is None else self._read(relative)  # most of what is asked for is not there
        if state is None or content is None:
            self._seen[path] = FileState(path, None)
            return None
        if not is_settled(state[0]):
            state = (-1, -1)
        if self._reads_originals:
            content = original_of(content)
        self._seen[path] = FileState(path, digest_of(content), *state)
        return content

    def modules_in(self, relative: str) -> list[str]:
        """The names of the modules and packages in a folder, by its path relative to the script."""
        path = os.path.normpath(os.path.join(self._directory, relative))  # noqa: PTH118
        state = settled_state(path)
        names = self._list(relative)
        is_there = os.path.isdir(path)  # noqa: PTH112
        self._seen[path] = FileState(path, digest_of_names(names), *state) if is_there else FileState(path, None)
        return names

    def exists(self, name: str) -> bool:
        """Whether there is an installed module of this name."""
        self._modules.add(name)
        return self.installed.exists(name)

    def find(self, name: str) -> Module | None:
        """The installed module of this name; None if there is none."""
        self._modules.add(name)
        return self.installed.find(name)

    def mentions(self, name: str, word: str) -> bool:
        """Whether a word stands in the source of an installed module."""
        self._modules.add(name)
        return self.installed.mentions(name, word)

    def lookups(self) -> tuple[Lookup, ...]:
        """The modules that were looked for, with where each was found."""
        return tuple(self.installed.places.look_up(name) for name in sorted(self._modules))

    def dependencies(self) -> tuple[FileState, ...]:
        """The files that were read or looked for, the sources of modules among them."""
        found = dict(self._seen)
        for each in self.installed.dependencies(sorted(self._modules)) if self._modules else ():
            found.setdefault(each.path, each)
        return tuple(found.values())
