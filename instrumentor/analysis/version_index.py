"""An index of a table's entries that follows the table from version to version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from instrumentor.analysis.persistent_map import PersistentMap

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class VersionIndex(Generic[K, V]):
    """Finds keys in versions of a persistent map. Fast if the version differs little from the one queried before.

    Args:
        marks: the marks by which an entry is found, for its key and value.
    """

    def __init__(self, marks: Callable[[K, V], Iterable[Hashable]]) -> None:
        self._marks = marks
        self._version: PersistentMap[K, V] = PersistentMap()
        self._keys: dict[Hashable, dict[K, None]] = {}

    def find(self, version: PersistentMap[K, V], mark: Hashable) -> Collection[K]:
        """The keys of a version whose entries have a mark, in no particular order. Valid until the next query."""
        self._follow(version)
        return self._keys.get(mark, ())

    def _follow(self, version: PersistentMap[K, V]) -> None:
        if version is self._version:
            return
        for key in version.differences(self._version):
            if key in self._version:
                self._remove(key, self._version[key])
            if key in version:
                for mark in self._marks(key, version[key]):
                    self._keys.setdefault(mark, {})[key] = None
        self._version = version

    def _remove(self, key: K, held: V) -> None:
        for mark in set(self._marks(key, held)):
            keys = self._keys[mark]
            del keys[key]
            if not keys:
                del self._keys[mark]
