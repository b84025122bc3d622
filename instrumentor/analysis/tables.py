"""Tables that know who has read which of their entries, so that only those look again when one changes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class Reader:
    """Somebody who reads entries: the visit of a scope, or of one of its statements.

    Attributes:
        scope: the key of the scope.
        is_stale: whether something read has changed since.
    """

    __slots__ = ("is_stale", "scope")

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.is_stale = False

    def spoil(self) -> None:
        """Take note that something read has changed."""
        self.is_stale = True

    def tell_again(self, tell: Callable[..., None], *told: object) -> None:
        """Have something told to the facts in every visit of the scope."""

    def forgo(self) -> None:
        """Have the same work done in every visit of the scope."""


class Visits:
    """Which scopes have to be visited: those that never were, and those that read what has changed since.

    Attributes:
        current: who is visiting; None where nobody is, so that reading leaves no trace.
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
        """Note on the way what is read as read by a scope."""
        self._settled.add(scope)
        outer, self.current = self.current, Reader(scope)
        try:
            yield
        finally:
            self.current = outer

    def read_by(self, reader: Reader, work: Callable[[], object]) -> None:
        """Do some work; what is read meanwhile is noted as read by somebody."""
        outer, self.current = self.current, reader
        try:
            work()
        finally:
            self.current = outer

    def note_table(self, table: Readers[Any]) -> None:
        """Remember a table of which entries are read."""
        self._tables.append(table)

    def forget_readers(self) -> None:
        """Let go of the tables, and of who has read what: that is what keeps them all."""
        while self._tables:
            self._tables.pop().forget_readers()

    def repeat(self, readers: Iterable[Reader]) -> None:
        """Have the scopes visited again that somebody visited, the one that is being visited too."""
        for reader in readers:
            reader.spoil()
            self._settled.discard(reader.scope)


class Readers(Generic[K]):
    """Who has read which entries since these last changed."""

    def __init__(self, visits: Visits) -> None:
        self._visits = visits
        # One that reads an entry several times may be there several times, if others read it meanwhile.
        self._readers: dict[K, list[Reader]] = {}
        visits.note_table(self)

    def forget_readers(self) -> None:
        """Let go of who has read what."""
        self._readers.clear()

    def note_read(self, key: K) -> None:
        """Remember that the visit depends on an entry."""
        reader = self._visits.current
        if reader is None:
            return
        readers = self._readers.get(key)
        if readers is None:
            self._readers[key] = [reader]
        elif readers[-1] is not reader:
            readers.append(reader)

    def note_changed(self, key: K) -> None:
        """Have those visited again that read an entry before it changed."""
        readers = self._readers.pop(key, None)
        if readers is not None:
            self._visits.repeat(readers)


class Table(Readers[K], Generic[K, V]):
    """What is known of each of several things."""

    def __init__(self, visits: Visits) -> None:
        super().__init__(visits)
        self._held: dict[K, V] = {}

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: D | None = None) -> V | D | None:
        """What is known of `key`."""
        reader = self._visits.current
        if reader is not None:  # as `note_read` does, without the time that a call takes
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
        """What is known of `key`, for those that go by nothing in it that may change."""
        return self._held.get(key)

    def kept(self, key: K, make: Callable[[], V]) -> V:
        """What is kept for `key`, made empty if need be, for those that add to it and note that it changed."""
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = make()
        return held

    def __setitem__(self, key: K, value: V) -> None:
        self._held[key] = value
        self.note_changed(key)

    def keys(self) -> Iterable[K]:
        """All that something is known of; not to be asked for during a visit."""
        return self._held.keys()

    def values(self) -> Iterable[V]:
        """All that is known; not to be asked for during a visit."""
        return self._held.values()

    def items(self) -> Iterable[tuple[K, V]]:
        """Both; not to be asked for during a visit."""
        return self._held.items()


class Marks(Readers[K]):
    """A set of marked things, such as the functions that escape."""

    def __init__(self, visits: Visits) -> None:
        super().__init__(visits)
        self._held: set[K] = set()

    def __contains__(self, key: K) -> bool:
        self.note_read(key)
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def add(self, keys: Iterable[K]) -> None:
        """Let it be so for more."""
        for key in keys:
            if key not in self._held:
                self._held.add(key)
                self.note_changed(key)
