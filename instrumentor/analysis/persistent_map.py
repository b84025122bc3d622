"""Mappings of which every version stays as it is, and shares with the others all that they have in common.

An analysis keeps what names hold before and behind each statement. Copies of a table would take room and time by the
square of the statements; versions of one take what their differences take. So do comparisons: what two versions share
is not looked into.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from itertools import chain
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# A tree: a leaf is a dict, and what lies above is a list of as many nodes as some bits of a key's hash can tell apart.
_Node = Any
_BITS = 4
_WIDTH = 1 << _BITS
_MASK = _WIDTH - 1
_MAX_LEAF = 16
# Below which the bits of a hash are used up: keys that still share a leaf are alike in all of them.
_MAX_DEPTH = 15


class PersistentMap(Mapping[K, V], Generic[K, V]):
    """A mapping that never changes; `set` and `without` give others.

    Two that were made one from the other take little more room than one. Of small ones the order is that of a dict; of
    others it is not defined.

    Args:
        held: what it holds.
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
        """What it holds under a key, or else the default."""
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
        """The same, but for one key that holds a value."""
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
        """The same, but for one key, which it has, that holds nothing.

        Raises:
            KeyError: it has no such key.
        """
        changed: PersistentMap[K, V] = PersistentMap.__new__(PersistentMap)
        changed._size = self._size - 1
        changed._root = _without(self._root, hash(key), key)
        if changed._size <= _MAX_LEAF // 2:  # as few as these are a leaf again
            changed._root = _flat(changed._root)
        return changed

    def differences(self, other: PersistentMap[K, V]) -> list[K]:
        """The keys under which two have not the same; found in about as many steps as there are.

        Parts that turn out to be equal are shared from then on: who goes on to compare later versions of the two does
        not look into them again.
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
    """A leaf, or what stands for one that is too large."""
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
    # Most are the very same, which is seen faster than that they are equal.
    get = theirs.get
    found += [key for key, held in ours.items() if (other := get(key)) is not held and other != held]
    found += [key for key in theirs if key not in ours]


def _flat(node: _Node) -> dict[Any, Any]:
    return node if type(node) is dict else dict(chain.from_iterable(leaf.items() for leaf in _leaves(node)))
