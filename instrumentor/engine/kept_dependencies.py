"""The dependencies of kept outcomes: files as they were read, and where installed modules were found.

Both are numbered, and each is checked once per run, however many outcomes depend on it:

    sources   other files, once for each content they had
    lookups   module names, with the result of searching for them in some folders, which may be nothing

So installing, upgrading or removing a package invalidates exactly the outcomes that searched for its modules. It does
not matter how it is installed: as a package, a module, part of a namespace, through a path file, or editable.
"""

from __future__ import annotations

import os
from array import array
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.paths.file_state import digest_of, is_settled
from instrumentor.resolve.module_places import Lookup, ModulePlaces

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from instrumentor.engine.file_states import FileStates
    from instrumentor.paths.file_state import FileState

SCHEMA = """
create table if not exists sources (
    number integer primary key autoincrement, -- never given out again: a run may hold rows that are gone
    path blob not null,
    digest blob not null,
    modified_ns integer not null,
    size integer not null,
    unique (path, digest)
);
create table if not exists lookups (
    number integer primary key autoincrement,
    folders blob not null,           -- a digest of those searched, in their order
    name text not null,
    found blob not null,
    unique (folders, name, found)
);
"""
TABLES = ("sources", "lookups")
# Unused dependencies are not searched for, but cleared with everything else at this size.
_MAX_KEPT = 2_000_000
_MAX_HELD = 100_000
# Dependencies recorded together have consecutive numbers, and are read together.
_CHUNK = 128


class _Source(NamedTuple):
    """A file as it was when an outcome first depended on it."""

    path: bytes
    digest: bytes
    modified_ns: int
    size: int


class KeptDependencies:
    """Checks whether dependencies are unchanged."""

    def __init__(self, files: FileStates) -> None:
        """Start a run; `files` gives the state of files."""
        self._files = files
        self._places: dict[tuple[str, ...], ModulePlaces] = {}
        self._sources: dict[int, _Source] = {}
        self._lookups: dict[int, tuple[str, bytes]] = {}
        self._fresh_sources: set[int] = set()
        self._fresh_lookups: set[int] = set()
        # Files whose content is unchanged but whose times differ.
        self._newer: dict[int, tuple[int, int]] = {}

    def hold(self, connection: sqlite3.Connection, sources: bytes, lookups: bytes, folders: tuple[str, ...]) -> bool:
        """Whether dependencies, given by number, are unchanged; modules are searched for in `folders`."""
        return _all_hold(sources, self._fresh_sources, lambda number: self._is_source_fresh(connection, number)) and (
            _all_hold(lookups, self._fresh_lookups, lambda number: self._is_lookup_fresh(connection, number, folders))
        )

    def _is_source_fresh(self, connection: sqlite3.Connection, number: int) -> bool:
        if number not in self._sources:
            if len(self._sources) > _MAX_HELD:
                self._sources.clear()
                self._fresh_sources.clear()
            query = f"select * from sources where number >= ? order by number limit {_CHUNK}"
            self._sources.update((row[0], _Source(*row[1:])) for row in connection.execute(query, (number,)))
        source = self._sources.get(number)
        if source is None:  # cleared by another run
            return False
        path = os.fsdecode(source.path)
        state = self._files.state(path)
        if state == (source.modified_ns, source.size):
            return True
        if state is None or not self._files.has_content(path, source.digest, once=True):
            return False
        if is_settled(state[0]):
            self._newer[number] = state
        return True

    def _is_lookup_fresh(self, connection: sqlite3.Connection, number: int, folders: tuple[str, ...]) -> bool:
        if number not in self._lookups:
            if len(self._lookups) > _MAX_HELD:
                self._lookups.clear()
                self._fresh_lookups.clear()
            query = f"select number, name, found from lookups where number >= ? order by number limit {_CHUNK}"
            self._lookups.update((row[0], row[1:]) for row in connection.execute(query, (number,)))
        kept = self._lookups.get(number)
        if kept is None:  # as above
            return False
        name, found = kept
        if folders not in self._places:
            self._places[folders] = ModulePlaces(folders)
        return os.fsencode(self._places[folders].look_up(name).found) == found

    @property
    def has_news(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._newer)

    def write_news(self, connection: sqlite3.Connection) -> None:
        """Record the new times of files whose content is unchanged."""
        for number, state in self._newer.items():
            connection.execute("update sources set modified_ns = ?, size = ? where number = ?", (*state, number))

    def forget_news(self) -> None:
        """Drop the changes to be written, once they are written."""
        self._newer.clear()


def number_sources(connection: sqlite3.Connection, sources: Iterable[FileState]) -> bytes:
    """The numbers of files, as `KeptDependencies.hold` takes them; new files get a number."""
    return array("I", [_source_number(connection, each) for each in sources]).tobytes()


def number_lookups(connection: sqlite3.Connection, folders: tuple[str, ...], lookups: Iterable[Lookup]) -> bytes:
    """The same for module lookups in some folders."""
    searched = digest_of(os.fsencode("\0".join(folders)))
    numbers = array("I")
    for each in lookups:
        row = (searched, each.name, os.fsencode(each.found))
        query = "select number from lookups where folders = ? and name = ? and found = ?"
        known = connection.execute(query, row).fetchone()
        query = "insert into lookups (folders, name, found) values (?, ?, ?)"
        numbers.append(connection.execute(query, row).lastrowid if known is None else known[0])  # type: ignore[arg-type]
    return numbers.tobytes()


def are_too_many(connection: sqlite3.Connection) -> bool:
    """Whether there are so many dependencies that all should be cleared; judged by their numbers, which is quick."""
    query = "select coalesce((select max(number) from {0}) - (select min(number) from {0}) + 1, 0)"
    return any(connection.execute(query.format(table)).fetchone()[0] > _MAX_KEPT for table in TABLES)


def _all_hold(packed: bytes, fresh: set[int], is_fresh: Callable[[int], bool]) -> bool:
    """Whether all dependencies numbered in `packed` are unchanged; adds the unchanged ones to `fresh`."""
    if not packed:
        return True
    numbers = array("I", packed)
    if fresh.issuperset(numbers):
        return True
    for number in numbers:
        if number not in fresh:
            if not is_fresh(number):
                return False
            fresh.add(number)
    return True


def _source_number(connection: sqlite3.Connection, source: FileState) -> int:
    path = os.fsencode(source.path)
    query = "select number, modified_ns from sources where path = ? and digest = ?"
    found = connection.execute(query, (path, source.digest)).fetchone()
    if found is None:
        query = "insert into sources (path, digest, modified_ns, size) values (?, ?, ?, ?)"
        number = connection.execute(query, (path, source.digest, source.modified_ns, source.size)).lastrowid
        assert number is not None
        return number
    number = int(found[0])
    if source.modified_ns not in (-1, found[1]):
        query = "update sources set modified_ns = ?, size = ? where number = ?"
        connection.execute(query, (source.modified_ns, source.size, number))
    return number
