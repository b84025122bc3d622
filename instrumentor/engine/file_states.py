"""Whether files are as they were: by time and size where these tell, else by content."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor.paths.file_state import digest_of, digest_of_names, stat_file
from instrumentor.paths.files import list_modules
from instrumentor.resolve.module_places import list_names
from instrumentor.source.undo import original_of

if TYPE_CHECKING:
    from collections.abc import Iterable

# What is remembered of files and folders during a run; forgotten altogether when it is more.
_MAX_REMEMBERED = 50_000


class FileStates:
    """Looks at each file and folder once in a run."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[int, int] | None] = {}
        # Of the content, and of what it was before it was instrumented.
        self._digests: dict[str, tuple[bytes, bytes]] = {}
        self._names: dict[str, frozenset[str] | None] = {}

    def state(self, path: str) -> tuple[int, int] | None:
        """The time and size of a file."""
        if path not in self._states:
            if len(self._states) >= _MAX_REMEMBERED:
                self._states.clear()
                self._digests.clear()
            self._states[path] = stat_file(path)
        return self._states[path]

    def has_content(self, path: str, digest: bytes, *, once: bool = False) -> bool:
        """Whether a file's content has a digest, or `once` had it, before it was instrumented; it is read once.

        The content of a folder is the names of the modules in it.
        """
        if path not in self._digests:
            try:
                self._digests[path] = _digests_of(Path(path))
            except (OSError, ValueError):
                self._digests[path] = (b"", b"")
        return self._digests[path][once] == digest

    def names_in(self, folder: str) -> frozenset[str] | None:
        """The names in a folder, none where there is no folder; None where it may not be listed."""
        if folder not in self._names:
            if len(self._names) >= _MAX_REMEMBERED:
                self._names.clear()
            self._names[folder] = list_names(folder)
        return self._names[folder]

    def missing_part(self, path: str) -> tuple[str, str] | None:
        """The folder that is there and the name that is missing in it, on the way to a path; None if nothing is.

        Most of what is looked for and not found would lie in folders that are not there either, and many paths have
        the same one missing.
        """
        folder, name = os.path.split(path)
        above, folder_name = os.path.split(folder)
        if above != folder and folder_name not in ("", ".", ".."):
            siblings = self.names_in(above)
            if siblings is not None and folder_name not in siblings:
                return self.missing_part(folder)
        names = self.names_in(folder)
        if names is None:
            with contextlib.suppress(OSError, ValueError):
                return None if os.path.lexists(path) else (folder, name)
            return None
        return (folder, name) if name not in names else None

    def come(self, folder: str, names: Iterable[str]) -> frozenset[str]:
        """Which of some names are there in a folder."""
        there = self.names_in(folder)
        if there is None:
            return frozenset(name for name in names if os.path.lexists(os.path.join(folder, name)))  # noqa: PTH118
        return there.intersection(names)


def _digests_of(path: Path) -> tuple[bytes, bytes]:
    if path.is_dir():
        digest = digest_of_names(list_modules(path))
        return digest, digest
    content = path.read_bytes()
    return digest_of(content), digest_of(original_of(content))
