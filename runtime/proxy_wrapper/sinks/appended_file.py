"""A file that whole lines are appended to."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class FileRemovedError(Exception):
    """Somebody has deleted the file that is being written."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} has been deleted")


class AppendedFile:
    """A file in which each write arrives whole, or, where it fails, not at all; nothing is buffered."""

    def __init__(self, path: Path, *, is_new: bool) -> None:
        """Open the file, after its folder has been made.

        Args:
            path: where.
            is_new: whether there must be no such file yet, and no other process writes to it.

        Raises:
            OSError: if that cannot be done.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self.path = path
        self._is_ours = is_new
        self._file = os.open(path, flags | os.O_EXCL if is_new else flags, 0o666)
        self._is_open = True

    def append(self, text: bytes) -> None:
        """Hand `text` to the operating system.

        Raises:
            OSError: if it does not take all of it; a file of ours is then cut back to what it was.
            FileRemovedError: if the file has been deleted: what is written to it, nobody will read.
        """
        status = os.fstat(self._file)
        if not status.st_nlink and not self.path.exists():
            raise FileRemovedError(self.path)
        rest = memoryview(text)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            if self._is_ours:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, status.st_size)
            raise

    def move_to(self, path: Path) -> None:
        """Give the file another name, unless that is taken or the system does not rename open files."""
        with contextlib.suppress(OSError):
            if not path.exists():
                self.path.rename(path)
                self.path = path

    def close(self) -> None:
        """Close the file; once is enough."""
        if self._is_open:
            self._is_open = False
            os.close(self._file)
