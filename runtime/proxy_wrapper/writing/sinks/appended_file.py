"""A file to which whole lines are appended."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_APPENDING: Final = os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0)


class FileRemovedError(Exception):
    """The file being written has been deleted."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} has been deleted")


class AppendedFile:
    """A file without buffering. Each write arrives whole; a failed one leaves nothing, if the file is ours alone."""

    def __init__(self, path: Path, *, is_new: bool) -> None:
        """Open the file, and create its folder if necessary.

        Args:
            path: the path of the file.
            is_new: whether the file must not exist yet. No other process then writes to it.

        Raises:
            OSError: if the file cannot be opened.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = _APPENDING | os.O_CREAT
        self.path = path
        self._is_ours = is_new
        self._file = os.open(path, flags | os.O_EXCL if is_new else flags, 0o666)
        self._identity = _identity(os.fstat(self._file))
        self.size = 0  # The number of bytes appended.

    def append(self, text: bytes) -> None:
        """Pass `text` to the operating system.

        Raises:
            OSError: if not all of it could be written. A file that is ours alone is then truncated to its old size.
            FileRemovedError: if the file has been deleted, so that nobody could read it.
        """
        status = self._status() or self._reopened()
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
        self.size += len(text)

    def move_to(self, path: Path) -> None:
        """Rename the file, unless the name is taken or the system does not rename open files."""
        with contextlib.suppress(OSError):
            if not path.exists():
                self.path.rename(path)
                self.path = path

    def close(self) -> None:
        """Close the file, unless it is already closed, by us or by the program."""
        if self._status() is not None:
            os.close(self._file)
        self._file = -1

    def _status(self) -> os.stat_result | None:
        """The status of the file; None if its descriptor no longer refers to our file.

        Daemons close all file descriptors, and files that they open later may get the same numbers.
        """
        try:
            status = os.fstat(self._file)
        except OSError:
            return None
        return status if _identity(status) == self._identity else None

    def _reopened(self) -> os.stat_result:
        """Reopen the file after the program has closed its descriptor.

        Raises:
            OSError: if the file cannot be opened.
            FileRemovedError: if it no longer exists.
        """
        try:
            self._file = os.open(self.path, _APPENDING)
        except FileNotFoundError:
            raise FileRemovedError(self.path) from None
        status = self._status()
        if status is None:
            os.close(self._file)
            raise FileRemovedError(self.path)
        return status


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
