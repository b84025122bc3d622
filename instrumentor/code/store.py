"""Facts kept between runs, by the hash of the bytes that they were read from.

Each process that writes has a file of its own, to which it appends, so that nothing that another one wrote is ever
touched. A record that was cut off, because a run was killed, is passed over, as is all that follows it in its file.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from typing import TYPE_CHECKING

import msgspec

from instrumentor.code import facts, lowering, method_names
from instrumentor.code.facts import FileFacts
from instrumentor.paths.file_state import digest_of
from instrumentor.resolve.facts_cache import version_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

_DIGEST = 16
_LENGTH = 4


class FactsStore:
    """The facts of files, as bytes; a context manager, which closes what it wrote.

    Args:
        folder: the folder of caches; None to keep nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        version = version_of([facts, lowering, method_names], [])
        python = f"py{sys.version_info.major}{sys.version_info.minor}"
        self._folder = None if folder is None else folder / f"files-{version}-{python}"
        self._decoder = msgspec.msgpack.Decoder(FileFacts)
        self._encoder = msgspec.msgpack.Encoder()
        # Where each record lies: the file, the place in it, and its length.
        self._places: dict[bytes, tuple[Path, int, int]] = {}
        self._readers: dict[Path, BinaryIO] = {}
        self._writer: BinaryIO | None = None
        if self._folder is not None:
            self._find_records(self._folder)

    def __enter__(self) -> FactsStore:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (*self._readers.values(), *filter(None, [self._writer])):
            with contextlib.suppress(OSError):
                each.close()

    def load(self, digest: bytes) -> FileFacts | None:
        """The facts of the file with a digest; None where they are not there, or damaged."""
        place = self._places.get(digest)
        if place is None:
            return None
        path, start, length = place
        try:
            if path not in self._readers:
                self._readers[path] = path.open("rb")
            reader = self._readers[path]
            reader.seek(start)
            packed = reader.read(length)
            if len(packed) == length and digest_of(packed[_DIGEST:]) == packed[:_DIGEST]:
                return self._decoder.decode(packed[_DIGEST:])
        except (OSError, msgspec.DecodeError, RecursionError):
            pass
        return None

    def store(self, digest: bytes, found: FileFacts) -> None:
        """Keep the facts of the file with a digest; where that is not possible the next run reads the file again."""
        if self._folder is None:
            return
        try:
            packed = self._encoder.encode(found)
        except UnicodeEncodeError:  # strings may hold halves of characters, which no file does
            return
        record = digest_of(packed) + packed
        try:
            if self._writer is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._writer = (self._folder / f"{os.getpid()}-{secrets.token_hex(6)}.facts").open("xb")
            self._writer.write(digest + len(record).to_bytes(_LENGTH, "big") + record)
            self._writer.flush()
        except OSError:
            self._folder = None  # a full disk, a home that is read-only: work without

    def _find_records(self, folder: Path) -> None:
        try:
            found = sorted(folder.glob("*.facts"))
        except OSError:
            return
        for path in found:
            with contextlib.suppress(OSError):
                self._places.update(_records(path))


def _records(path: Path) -> Iterator[tuple[bytes, tuple[Path, int, int]]]:
    """The records of a file, by their digests; one that was cut off ends it."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        place = 0
        while place + _DIGEST + _LENGTH <= size:
            head = stream.read(_DIGEST + _LENGTH)
            length = int.from_bytes(head[_DIGEST:], "big")
            start = place + _DIGEST + _LENGTH
            if start + length > size:
                return
            yield head[:_DIGEST], (path, start, length)
            place = start + length
            stream.seek(place)
