"""Persistent mappings: versions never change, and share their common parts.

An analysis stores the environment before and after each statement. Copies would take space and time quadratic in the
number of statements; versions take only what their differences take. Comparisons skip shared parts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from itertools import chain
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# A tree. A leaf is a dict. An inner node is a list of subtrees, indexed by the next bits of a key's hash.
_Node = Any
_BITS = 4
_WIDTH = 1 << _BITS
_MASK = _WIDTH - 1
_MAX_LEAF = 16
# At this depth the bits of a hash are used up. Keys still in one leaf have equal hashes.
_MAX_DEPTH = 15


class PersistentMap(Mapping[K, V], Generic[K, V]):
    """An immutable mapping; `set` and `without` return new versions.

    A version and the one it was made from share most of their memory. Small mappings iterate in insertion order; the
    order of others is undefined.

    Args:
        held: the initial items.
    """

    __slots__ = ("_root", "_size")

    def __init__(self, held: Mapping[K, V] | None = None) -> None:
        leaf = dict(held or {})
        self._size = len(leaf)
        self._root: _Node = _split(leaf, 0)

    def __getitem__(self, key: K) -> V:
        node = self._root
        if type(node) is list:
            bits = hash(key)
            while type(node) is list:
                node = node[bits & _MASK]
                bits >>= _BITS
        found: V = node[key]
        return found

    def get(self, key: K, default: Any = None) -> Any:
        """The value of a key, or the default."""
        node = self._root
        if type(node) is list:
            bits = hash(key)
            while type(node) is list:
                node = node[bits & _MASK]
                bits >>= _BITS
        return node.get(key, default)

    def __contains__(self, key: object) -> bool:
        node = self._root
        if type(node) is list:
            bits = hash(key)
            while type(node) is list:
                node = node[bits & _MASK]
                bits >>= _BITS
        return key in node

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return iter(self._root) if type(self._root) is dict else chain.from_iterable(_leaves(self._root))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PersistentMap):
            return len(self) == len(other) and not self.differences(other)
        return isinstance(other, Mapping) and dict(self) == other

    __hash__ = None  # type: ignore[assignment]

    def set(self, key: K, value: V) -> PersistentMap[K, V]:
        """A version in which one key has a given value."""
        changed: PersistentMap[K, V] = PersistentMap.__new__(PersistentMap)
        changed._size = self._size + (key not in self)
        if type(self._root) is dict and changed._size <= _MAX_LEAF:
            leaf = self._root.copy()
            leaf[key] = value
            changed._root = leaf
        else:
            changed._root = _with(self._root, hash(key), key, value, 0)
        return changed

    def without(self, key: K) -> PersistentMap[K, V]:
        """A version without one key.

        Raises:
            KeyError: the key is not in the mapping.
        """
        changed: PersistentMap[K, V] = PersistentMap.__new__(PersistentMap)
        changed._size = self._size - 1
        changed._root = _without(self._root, hash(key), key)
        if changed._size <= _MAX_LEAF // 2:  # few enough to be a leaf again
            changed._root = _flat(changed._root)
        return changed

    def differences(self, other: PersistentMap[K, V]) -> list[K]:
        """The keys whose values differ between two versions, in time about proportional to their number.

        Subtrees found to be equal are shared from then on, so that later comparisons skip them.
        """
        ours, theirs = self._root, other._root
        if ours is theirs:
            return []
        found: list[K] = []
        _differ(ours, theirs, found)
        if not found:
            self._root = theirs
        return found


def _leaves(node: _Node) -> Iterator[dict[Any, Any]]:
    if type(node) is dict:
        yield node
    else:
        for below in node:
            yield from _leaves(below)


def _split(leaf: dict[Any, Any], depth: int) -> _Node:
    """A leaf, or the subtree that replaces it if it is too large."""
    if len(leaf) <= _MAX_LEAF or depth >= _MAX_DEPTH:
        return leaf
    parts: list[dict[Any, Any]] = [{} for _ in range(_WIDTH)]
    shift = depth * _BITS
    for key, held in leaf.items():
        parts[hash(key) >> shift & _MASK][key] = held
    return [_split(part, depth + 1) for part in parts]


def _with(node: _Node, bits: int, key: object, value: object, depth: int) -> _Node:
    changed = node.copy()
    if type(node) is dict:
        changed[key] = value
        return _split(changed, depth)
    changed[bits & _MASK] = _with(node[bits & _MASK], bits >> _BITS, key, value, depth + 1)
    return changed


def _without(node: _Node, bits: int, key: object) -> _Node:
    changed = node.copy()
    if type(node) is dict:
        del changed[key]
    else:
        changed[bits & _MASK] = _without(node[bits & _MASK], bits >> _BITS, key)
    return changed


def _differ(ours: _Node, theirs: _Node, found: list[Any]) -> None:
    if type(ours) is list and type(theirs) is list:
        for position, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            if our is not their:
                count = len(found)
                _differ(our, their, found)
                if len(found) == count:
                    ours[position] = their
        return
    ours, theirs = _flat(ours), _flat(theirs)
    # Most values are identical, which is faster to check than equality.
    get = theirs.get
    found += [key for key, held in ours.items() if (other := get(key)) is not held and other != held]
    found += [key for key in theirs if key not in ours]


def _flat(node: _Node) -> dict[Any, Any]:
    return node if type(node) is dict else dict(chain.from_iterable(leaf.items() for leaf in _leaves(node)))
