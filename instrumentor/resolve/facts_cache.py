"""A cache on disk of what was read from modules, by the hash of their bytes.

There is one small file per module. Its content depends only on the module's bytes, the reader's code and Python's
grammar. The folder's name identifies the last two, so entries need no invalidation, and processes that write the same
file write the same bytes. A truncated, damaged or foreign file is replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import sys
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from instrumentor import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import ModuleType

T = TypeVar("T", bound=msgspec.Struct)

_HASH_BYTES = 16
_VERSION_CHARACTERS = 12
_KINDS = ("modules", "outlines", "calls")


class FactsCache(Generic[T]):
    """Facts on disk, in a folder of caches.

    Args:
        folder: the folder of caches.
        kind: "modules", "outlines" or "calls".
        version: the version of the reader, as `version_of` gives it.
        facts: the class of the facts.
    """

    def __init__(self, folder: Path, kind: str, version: str, facts: type[T]) -> None:
        assert kind in _KINDS
        # Another version of Python may parse the same bytes to another tree.
        self._folder = folder / f"{kind}-{version}-py{sys.version_info.major}{sys.version_info.minor}"
        self._decoder = msgspec.msgpack.Decoder(facts)
        self._encoder = msgspec.msgpack.Encoder()
        self._is_writable = True

    def load(self, content: bytes) -> T | None:
        """The facts about a module with these bytes; None if they are missing or damaged."""
        try:
            stored = self._path(content).read_bytes()
        except OSError:
            return None
        checksum, packed = stored[:_HASH_BYTES], stored[_HASH_BYTES:]
        if checksum != _hash(packed):
            return None
        try:
            return self._decoder.decode(packed)
        except (msgspec.DecodeError, RecursionError):
            return None

    def store(self, content: bytes, facts: T) -> None:
        """Store the facts about a module. If that fails, the next run reads the module again."""
        if not self._is_writable:
            return
        try:
            packed = self._encoder.encode(facts)
        except UnicodeEncodeError:  # strings may contain lone surrogates
            return
        path = self._path(content)
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(6)}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(_hash(packed) + packed)
            os.replace(temporary, path)  # noqa: PTH105 - whole or not at all, whoever else writes it
        except OSError:
            self._is_writable = False  # a full disk or a read-only home: continue without the cache
            with contextlib.suppress(OSError):
                temporary.unlink()

    def _path(self, content: bytes) -> Path:
        key = _hash(content).hex()
        return self._folder / key[:2] / key[2:]


def version_of(readers: Iterable[ModuleType], words: Iterable[str]) -> str:
    """A short identifier of reader code, which changes with the code and with the words it uses.

    Args:
        readers: the modules with the code.
        words: the constants that it takes from other modules.
    """
    # Sources may not be installed; the package version always is.
    parts = [__version__, *(_source_of(reader) for reader in readers), *sorted(words)]
    return _hash("\0".join(parts).encode()).hex()[:_VERSION_CHARACTERS]


def _source_of(module: ModuleType) -> str:
    get_source = getattr(module.__spec__ and module.__spec__.loader, "get_source", None)
    return "" if get_source is None else get_source(module.__name__) or ""


def clear_facts(folder: Path) -> int:
    """Delete the facts of all versions in a folder of caches.

    Returns:
        The number of bytes freed.

    Raises:
        OSError: something cannot be deleted.
    """
    freed = 0
    for each in sorted(each for kind in _KINDS for each in folder.glob(f"{kind}-*")):
        freed += sum(file.stat().st_size for file in each.rglob("*") if file.is_file())
        shutil.rmtree(each)
    return freed


def _hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_HASH_BYTES).digest()
