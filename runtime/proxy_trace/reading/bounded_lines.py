"""Reads the lines of an arbitrary file in bounded memory, even if a line is very long."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO
    from pathlib import Path

LONGEST_LINE: Final = 1 << 24
"""The most bytes of a record: a command line has at most 2 MB, a call with a thousand tensors 100 kB."""

TOO_LONG: Final = b"{"
"""Stands for a line that is too long to be a record."""

_CHUNK: Final = 1 << 16


class BoundedLines:
    """The lines of a file, without line ends; lines longer than `LONGEST_LINE` become `TOO_LONG`.

    Attributes:
        is_unfinished: whether the last yielded line lacks a line end: it is truncated, or still being written.
    """

    def __init__(self, file: FileIO) -> None:
        """Read `file` from its present position."""
        self.bytes_read = 0
        self.is_unfinished = False
        self._held_back = 0
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        """Yield the lines.

        Raises:
            OSError: if the file system refuses.
        """
        for block in self.blocks():
            yield from block

    def blocks(self) -> Iterator[list[bytes]]:
        """Yield the lines, in blocks as they are read.

        Raises:
            OSError: if the file system refuses.
        """
        parts: list[bytes] = []
        size = 0
        chunk = self._read()
        while chunk:
            *lines, rest = chunk.split(b"\n")
            if lines:
                lines[0] = b"".join([*parts, lines[0]])
                parts, size = [], 0
            parts.append(rest)
            size += len(rest)
            after = b""
            if lines:
                self._held_back = size
                yield lines
            elif size > LONGEST_LINE:
                found = self._skip()
                self.is_unfinished = found is None
                after = found or b""
                parts, size = [], 0
                self._held_back = len(after)
                yield [TOO_LONG]
            chunk = after or self._read()
        if size:
            self.is_unfinished = True
            self._held_back = 0
            yield [b"".join(parts)]

    @property
    def bytes_given(self) -> int:
        """The number of bytes in the yielded lines, with line ends."""
        return self.bytes_read - self._held_back

    def _read(self) -> bytes:
        chunk = self._file.read(_CHUNK)
        self.bytes_read += len(chunk)
        return chunk

    def _skip(self) -> bytes | None:
        """Skip the rest of the line; returns the bytes read after it, None at the end of the file."""
        while chunk := self._read():
            _, end, after = chunk.partition(b"\n")
            if end:
                return after
        return None


@contextmanager
def open_regular(path: Path) -> Iterator[FileIO]:
    """Open a regular file for reading. A pipe would block the reader, and a device may never end.

    Raises:
        OSError: if it is not a regular file, or the file system refuses.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    number = os.open(path, flags)
    try:
        mode = os.fstat(number).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device, and a trace is a file")
        file = os.fdopen(number, "rb", buffering=0)
    except BaseException:
        os.close(number)
        raise
    with file:
        yield file
