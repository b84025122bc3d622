"""A file that whole lines are appended to."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_APPENDING: Final = os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0)


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
        flags = _APPENDING | os.O_CREAT
        self.path = path
        self._is_ours = is_new
        self._file = os.open(path, flags | os.O_EXCL if is_new else flags, 0o666)
        self._identity = _identity(os.fstat(self._file))
        self.size = 0  # How many bytes have been appended.

    def append(self, text: bytes) -> None:
        """Hand `text` to the operating system.

        Raises:
            OSError: if it does not take all of it; a file of ours is then cut back to what it was.
            FileRemovedError: if the file has been deleted: what is written to it, nobody will read.
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
        """Give the file another name, unless that is taken or the system does not rename open files."""
        with contextlib.suppress(OSError):
            if not path.exists():
                self.path.rename(path)
                self.path = path

    def close(self) -> None:
        """Close the file; once is enough, and not at all if the program has done it."""
        if self._status() is not None:
            os.close(self._file)
        self._file = -1

    def _status(self) -> os.stat_result | None:
        """What the system says of the file; None if its number is not, or no longer, that of our file.

        Programs that go into the background close all numbers, and then open files of their own that get them.
        """
        try:
            status = os.fstat(self._file)
        except OSError:
            return None
        return status if _identity(status) == self._identity else None

    def _reopened(self) -> os.stat_result:
        """Open the file that the program has closed once more.

        Raises:
            OSError: if that cannot be done.
            FileRemovedError: if it is not there any more.
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
