"""Tables that register who reads their entries, so that a change makes only these readers due."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class Reader:
    """A reader of entries: the visit of a scope, or of one of its statements.

    Attributes:
        scope: the key of the scope.
        is_stale: whether an entry that it read has changed.
    """

    __slots__ = ("is_stale", "scope")

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.is_stale = False

    def spoil(self) -> None:
        """Record that an entry it read has changed."""
        self.is_stale = True

    def tell_again(self, tell: Callable[..., None], *told: object) -> None:
        """Register a call that must be repeated in every visit of the scope."""

    def forgo(self) -> None:
        """Require that the work is repeated in every visit of the scope."""


class Visits:
    """Which scopes must be visited: those never visited, and those that read an entry that has changed.

    Attributes:
        current: the current reader; None if there is none, and reads are not registered.
    """

    def __init__(self) -> None:
        self.current: Reader | None = None
        self._settled: set[str] = set()
        self._tables: list[Readers[Any]] = []

    def is_due(self, scope: str) -> bool:
        """Whether a visit of a scope may find anything new."""
        return scope not in self._settled

    @contextmanager
    def of(self, scope: str) -> Iterator[None]:
        """Register reads in the block for a scope, which becomes settled."""
        self._settled.add(scope)
        outer, self.current = self.current, Reader(scope)
        try:
            yield
        finally:
            self.current = outer

    def read_by(self, reader: Reader, work: Callable[[], object]) -> None:
        """Do some work and register its reads for a reader."""
        outer, self.current = self.current, reader
        try:
            work()
        finally:
            self.current = outer

    def note_table(self, table: Readers[Any]) -> None:
        """Register a table."""
        self._tables.append(table)

    def forget_readers(self) -> None:
        """Release the tables and all registered readers, which keep each other alive."""
        while self._tables:
            self._tables.pop().forget_readers()

    def repeat(self, readers: Iterable[Reader]) -> None:
        """Make the readers stale and their scopes due, including a scope being visited."""
        for reader in readers:
            reader.spoil()
            self._settled.discard(reader.scope)


class Readers(Generic[K]):
    """Who has read which entries since their last change."""

    def __init__(self, visits: Visits) -> None:
        self._visits = visits
        # A reader may occur several times if others read the entry in between.
        self._readers: dict[K, list[Reader]] = {}
        visits.note_table(self)

    def forget_readers(self) -> None:
        """Release all registered readers."""
        self._readers.clear()

    def note_read(self, key: K) -> None:
        """Register the current reader of an entry."""
        reader = self._visits.current
        if reader is None:
            return
        readers = self._readers.get(key)
        if readers is None:
            self._readers[key] = [reader]
        elif readers[-1] is not reader:
            readers.append(reader)

    def note_changed(self, key: K) -> None:
        """Make the readers of an entry due."""
        readers = self._readers.pop(key, None)
        if readers is not None:
            self._visits.repeat(readers)


class Table(Readers[K], Generic[K, V]):
    """A table with registered readers."""

    def __init__(self, visits: Visits) -> None:
        super().__init__(visits)
        self._held: dict[K, V] = {}

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: D | None = None) -> V | D | None:
        """The entry of `key`."""
        reader = self._visits.current
        if reader is not None:  # `note_read`, inlined for speed
            readers = self._readers.get(key)
            if readers is None:
                self._readers[key] = [reader]
            elif readers[-1] is not reader:
                readers.append(reader)
        return self._held.get(key, default)

    def __getitem__(self, key: K) -> V:
        self.note_read(key)
        return self._held[key]

    def __contains__(self, key: K) -> bool:
        self.note_read(key)
        return key in self._held

    def peek(self, key: K) -> V | None:
        """The entry of `key`, without registering a reader; only for properties of it that never change."""
        return self._held.get(key)

    def kept(self, key: K, make: Callable[[], V]) -> V:
        """The mutable entry of `key`, created if missing. Whoever adds to it must call `note_changed`."""
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = make()
        return held

    def __setitem__(self, key: K, value: V) -> None:
        self._held[key] = value
        self.note_changed(key)

    def keys(self) -> Iterable[K]:
        """All keys; not registered, so not for use during a visit."""
        return self._held.keys()

    def values(self) -> Iterable[V]:
        """All entries; not registered, so not for use during a visit."""
        return self._held.values()

    def items(self) -> Iterable[tuple[K, V]]:
        """All keys and entries; not registered, so not for use during a visit."""
        return self._held.items()


class Marks(Readers[K]):
    """A set with registered readers, such as the functions that escape."""

    def __init__(self, visits: Visits) -> None:
        super().__init__(visits)
        self._held: set[K] = set()

    def __contains__(self, key: K) -> bool:
        self.note_read(key)
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def add(self, keys: Iterable[K]) -> None:
        """Add keys to the set."""
        for key in keys:
            if key not in self._held:
                self._held.add(key)
                self.note_changed(key)
