"""Reads the lines of a file that may hold anything, in memory that its longest line does not decide."""

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
"""A record has no more bytes: a command line has 2 MB at most, a call of a thousand tensors 100 kB."""

TOO_LONG: Final = b"{"
"""What is given out in place of a line that is longer: no record, as that line is none."""

_CHUNK: Final = 1 << 16


class BoundedLines:
    """The lines of a file, without their line ends; those that are longer than `LONGEST_LINE` as `TOO_LONG`.

    Attributes:
        is_unfinished: whether the line that was given out last has no line end: it breaks off, or is still written.
    """

    def __init__(self, file: FileIO) -> None:
        """Read `file` from where it stands."""
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
        """Yield the lines, as many at a time as are at hand.

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
        """How many bytes the lines have that were given out, with their ends."""
        return self.bytes_read - self._held_back

    def _read(self) -> bytes:
        chunk = self._file.read(_CHUNK)
        self.bytes_read += len(chunk)
        return chunk

    def _skip(self) -> bytes | None:
        """Read to the end of the line; what was read of the next ones, None where the file ends before."""
        while chunk := self._read():
            _, end, after = chunk.partition(b"\n")
            if end:
                return after
        return None


@contextmanager
def open_regular(path: Path) -> Iterator[FileIO]:
    """Open a regular file to be read. A pipe would keep the reader waiting, and a device may never end.

    Raises:
        OSError: if it is none, or the file system refuses.
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
