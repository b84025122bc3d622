"""An anonymous file, which disappears with the last process that has it open."""

from __future__ import annotations

import os


def open_memory_file(content: bytes) -> int:
    """The descriptor of an open file that holds `content`. A child process does not inherit it by default.

    Raises:
        OSError: if the system has no room for it.
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
    """The content of the open file with descriptor `number`, which is closed.

    Raises:
        OSError: if there is no such file.
    """
    size = os.fstat(number).st_size
    content = os.pread(number, size, 0)
    os.close(number)
    return content
