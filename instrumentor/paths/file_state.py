"""The state of a file when it was read."""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

# File systems store times with a resolution of up to two seconds, so a recent file may change without a new time.
_SETTLED_NS = 2_000_000_000


class FileState(msgspec.Struct, frozen=True):
    """A file as it was when it was read.

    Attributes:
        path: its path.
        digest: the digest of its content, or of the names of the modules in it if it is a folder; None if it did not
            exist.
        modified_ns: its modification time; -1 if it could change again without a new time.
        size: in bytes.
    """

    path: str
    digest: bytes | None
    modified_ns: int = -1
    size: int = -1


def digest_of(content: bytes) -> bytes:
    """The digest used to compare contents."""
    return hashlib.blake2b(content, digest_size=16).digest()


def digest_of_names(names: Iterable[str]) -> bytes:
    """The same for what is in a folder."""
    return digest_of("\0".join(names).encode("utf-8", "surrogateescape"))


def stat_file(path: str) -> tuple[int, int] | None:
    """The modification time in ns, and the size in bytes; None if there is no file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - the million of them count
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


def settled_state(path: str) -> tuple[int, int]:
    """The time and size of a file about to be read; (-1, -1) if a later version could have the same."""
    state = stat_file(path)
    return state if state is not None and is_settled(state[0]) else (-1, -1)


def is_settled(modified_ns: int) -> bool:
    """Whether any later modification of a file is bound to give it another time."""
    return abs(time.time_ns() - modified_ns) > _SETTLED_NS
