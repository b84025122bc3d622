"""Which keys of a table have something to do with what, followed from one version of the table to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from instrumentor.analysis.persistent_map import PersistentMap

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class VersionIndex(Generic[K, V]):
    """Finds keys in versions of a table, mostly in one that is little different from the one asked for before.

    Args:
        marks: by what an entry is found: gives that for its key and what this holds.
    """

    def __init__(self, marks: Callable[[K, V], Iterable[Hashable]]) -> None:
        self._marks = marks
        self._version: PersistentMap[K, V] = PersistentMap()
        self._keys: dict[Hashable, dict[K, None]] = {}

    def find(self, version: PersistentMap[K, V], mark: Hashable) -> Collection[K]:
        """The keys in a version whose entries have a mark, in no particular order; not to be kept."""
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
