"""Whether files are unchanged: by time and size where these suffice, otherwise by content."""

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

# The maximum number of remembered files and folders in a run; beyond it, all are forgotten.
_MAX_REMEMBERED = 50_000


class FileStates:
    """Reads the state of each file and folder once per run."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[int, int] | None] = {}
        # The digests of the content and of the original that it was instrumented from.
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
        """Whether a file's content has a digest, or with `once` its original has; each file is read once.

        The content of a folder is the names of the modules in it.
        """
        if path not in self._digests:
            try:
                self._digests[path] = _digests_of(Path(path))
            except (OSError, ValueError):
                self._digests[path] = (b"", b"")
        return self._digests[path][once] == digest

    def names_in(self, folder: str) -> frozenset[str] | None:
        """The names in a folder, empty if there is no folder; None if it cannot be listed."""
        if folder not in self._names:
            if len(self._names) >= _MAX_REMEMBERED:
                self._names.clear()
            self._names[folder] = list_names(folder)
        return self._names[folder]

    def missing_part(self, path: str) -> tuple[str, str] | None:
        """The deepest existing folder on a path and the name missing in it; None if the path exists.

        Most paths that are not found lie in folders that do not exist either, and many share the same missing folder.
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
        """Which of the given names exist in a folder."""
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
