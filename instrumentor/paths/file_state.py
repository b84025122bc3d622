"""What a file was like when it was read."""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

# File systems keep time in steps of up to two seconds: a file written just now may be written again within one.
_SETTLED_NS = 2_000_000_000


class FileState(msgspec.Struct, frozen=True):
    """A file as it was when it was read.

    Attributes:
        path: where it lies.
        digest: of its content, or of the names of the modules in it where it is a folder; None where there was none.
        modified_ns: its time of modification; -1 if it may change once more without another time showing it.
        size: in bytes.
    """

    path: str
    digest: bytes | None
    modified_ns: int = -1
    size: int = -1


def digest_of(content: bytes) -> bytes:
    """The digest by which contents are compared."""
    return hashlib.blake2b(content, digest_size=16).digest()


def digest_of_names(names: Iterable[str]) -> bytes:
    """The same for what is in a folder."""
    return digest_of("\0".join(names).encode("utf-8", "surrogateescape"))


def stat_file(path: str) -> tuple[int, int] | None:
    """The time of modification in ns, and the size in bytes; None where there is no file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - the million of them count
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


def settled_state(path: str) -> tuple[int, int]:
    """The time and size of a file that is about to be read; (-1, -1) if that may not tell it from a later one."""
    state = stat_file(path)
    return state if state is not None and is_settled(state[0]) else (-1, -1)


def is_settled(modified_ns: int) -> bool:
    """Whether a file that was modified then can be told by its time from one that is modified from now on."""
    return abs(time.time_ns() - modified_ns) > _SETTLED_NS
