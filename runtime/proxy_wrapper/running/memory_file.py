"""A file that has no name, and is gone with the last process that has it open."""

from __future__ import annotations

import os


def open_memory_file(content: bytes) -> int:
    """The number of an open file that holds `content`; whoever is to inherit it must be told so.

    Raises:
        OSError: if the system has no room.
    """
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("instrument")
    else:
        from tempfile import TemporaryFile

        with TemporaryFile() as file:
            number = os.dup(file.fileno())
    with open(number, "wb", closefd=False) as memory:
        memory.write(content)
    os.lseek(number, 0, os.SEEK_SET)
    return number


def take_memory_file(number: int) -> bytes:
    """What the open file `number` holds; it is closed.

    Raises:
        OSError: if there is no such file.
    """
    size = os.fstat(number).st_size
    content = os.pread(number, size, 0)
    os.close(number)
    return content
