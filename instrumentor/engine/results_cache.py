"""Outcomes of earlier runs, kept on disk: a file is not read again while it and its dependencies are unchanged.

It is one SQLite file, so concurrent runs can share it and a killed run leaves it intact. Rows are in the order in which
a tree is walked, and are read in blocks:

    results   one for each script and choice of settings, with the numbers of its folder and its dependencies
    folders   for all scripts of a folder together, the project's names that were searched for and not found

The other dependencies are in the tables of `kept_dependencies`.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from instrumentor import __version__
from instrumentor.decision import Decision  # noqa: TC001 - msgspec resolves the fields' types
from instrumentor.engine import kept_dependencies
from instrumentor.engine.file_states import FileStates
from instrumentor.engine.kept_dependencies import KeptDependencies, number_lookups, number_sources
from instrumentor.engine.outcome import Change, Outcome, Status
from instrumentor.paths.file_state import FileState, digest_of, is_settled
from instrumentor.resolve.search_path import SearchPaths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from instrumentor.engine.outcome import Task
    from instrumentor.resolve.module_places import Lookup

_FORMAT = 5
_KEPT_DAYS = 30
_PAGE = 512
_FLUSH_AFTER = 256
_FLUSH_AFTER_S = 2.0
_MAX_HELD = 100_000

_SCHEMA = (
    kept_dependencies.SCHEMA
    + """
create table if not exists results (
    run blob not null,               -- a digest of the settings and all else that is the same for a whole run
    path blob not null,              -- with a zero byte for each slash: so a folder comes before what follows it
    folder integer not null,         -- its number; the row holds only while there is such a folder
    modified_ns integer not null,    -- of the script, as size and digest
    size integer not null,
    digest blob not null,
    status text not null,
    lines integer not null,
    result_digest blob not null,
    sources blob not null,           -- numbers, four bytes each
    lookups blob not null,           -- the same
    details blob not null,
    missing blob not null,           -- names by the folder that they are not in: this script's own
    changes blob not null,           -- the files that change, with their bytes; empty where they are not kept
    primary key (run, path)
) without rowid;
create table if not exists folders (
    number integer primary key autoincrement,
    run blob not null,
    path blob not null,
    used integer not null,           -- the day, counted from 1970
    roots text not null,             -- where imports started from
    missing blob not null,           -- those of all its scripts
    unique (run, path)
);
"""
)


class _Details(msgspec.Struct, array_like=True):
    """The parts of an outcome that only some runs need."""

    decisions: tuple[Decision, ...]
    cells: tuple[tuple[int, int], ...]
    recorded_source: str
    elsewhere: tuple[str, ...]


class _KeptChange(msgspec.Struct, array_like=True):
    """A file that changes, with the digest of its original."""

    path: str
    original: bytes
    result: bytes


class _Row(NamedTuple):
    """The kept outcome of a script."""

    path: bytes
    folder: int
    modified_ns: int
    size: int
    digest: bytes
    status: Status
    lines: int
    result_digest: bytes
    sources: bytes
    lookups: bytes


class _Kept(NamedTuple):
    """An outcome to write."""

    script: FileState
    status: Status
    lines: int
    result_digest: bytes
    details: bytes
    sources: tuple[FileState, ...]
    lookups: tuple[Lookup, ...]
    folders: tuple[str, ...]
    missing: dict[str, list[str]]
    changes: bytes


class _Page(NamedTuple):
    """A block of a run's rows: paths from `first` on, up to `last` if there are more."""

    run: bytes
    first: bytes
    last: bytes | None
    rows: dict[bytes, _Row]

    def covers(self, run: bytes, path: bytes) -> bool:
        """Whether a script's row would be in this block if it had one."""
        return run == self.run and self.first <= path and (self.last is None or path <= self.last)


class ResultsCache:
    """Outcomes by file and settings; a context manager that writes new outcomes at the end.

    Concurrent runs may share it. Its errors never fail a run: nothing is found then, which only costs time.
    """

    def __init__(self, directory: Path, search: SearchPaths | None = None) -> None:
        """Open a cache.

        Args:
            directory: where it is stored; created if necessary.
            search: finds the folders that a script's imports start from.
        """
        self._search = search or SearchPaths()
        self._environment = _environment_digest()
        self._decoder = msgspec.msgpack.Decoder(_Details)
        self._changes_decoder = msgspec.msgpack.Decoder(list[_KeptChange])
        self._missing_decoder = msgspec.msgpack.Decoder(dict[str, list[str]])
        self._encoder = msgspec.msgpack.Encoder()
        self._files = FileStates()
        self._dependencies = KeptDependencies(self._files)
        self._today = int(time.time()) // 86400
        self._last_run: tuple[Task, str, bytes] | None = None
        self._page: _Page | None = None
        self._folders: dict[int, tuple[int, str, bytes]] = {}
        # By folder number, the names that were missing and exist now; None if imports start from elsewhere now.
        self._come: dict[int, dict[str, frozenset[str]] | None] = {}
        # By run, folder, and where the folder's imports start from.
        self._pending: dict[tuple[bytes, bytes, str], dict[bytes, _Kept]] = {}
        self._pending_count = 0
        self._flushed_s = time.monotonic()
        # Folders whose imports start from elsewhere now, so that their rows are invalid.
        self._stale: set[int] = set()
        self._touched: set[int] = set()
        # Scripts whose content is unchanged but whose times differ.
        self._newer_scripts: dict[tuple[bytes, bytes], tuple[int, int]] = {}
        self._directory = directory
        self._connection = self._open() or self._open()

    def __enter__(self) -> ResultsCache:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def is_open(self) -> bool:
        """Whether the cache can be used."""
        return self._connection is not None

    def find(self, task: Task, *, with_decisions: bool = True) -> Outcome | None:
        """The kept outcome of a task; None if it may be different now.

        Args:
            task: the task.
            with_decisions: whether to include decisions even for a script that does not change.

        Returns:
            The outcome without bytes and dependencies.
        """
        if self._connection is None:
            return None
        try:
            run, path = self._run(task), _in_order(task.path)
            row = self._row(self._connection, run, path)
            if row is None or not self._holds(self._connection, run, task, row):
                return None
            outcome = Outcome(
                row.status,
                FileState(task.path, row.digest, row.modified_ns, row.size),
                result_digest=row.result_digest,
                lines=row.lines,
            )
            if row.status == "unchanged" and not with_decisions:
                return outcome
            query = "select details from results where run = ? and path = ?"
            found = self._connection.execute(query, (run, path)).fetchone()
            if found is None:  # cleared by another run
                return None
            details = self._decoder.decode(found[0])
        except (sqlite3.Error, msgspec.MsgspecError, TypeError, ValueError) as error:
            self._repair(error)
            return None
        return replace(
            outcome,
            decisions=details.decisions,
            cells=details.cells,
            recorded_source=details.recorded_source,
            elsewhere=details.elsewhere,
        )

    def find_changes(self, task: Task) -> tuple[Outcome, tuple[Change, ...]] | None:
        """The outcome of a task as `find` gives it, with the files that change; None unless they were added with it."""
        outcome = self.find(task)
        if outcome is None or self._connection is None:
            return None
        try:
            query = "select changes from results where run = ? and path = ?"
            found = self._connection.execute(query, (self._run(task), _in_order(task.path))).fetchone()
            if found is None or not found[0]:
                return None
            kept = self._changes_decoder.decode(zlib.decompress(found[0]))
        except (sqlite3.Error, msgspec.MsgspecError, zlib.error, TypeError, ValueError) as error:
            self._repair(error)
            return None
        changes = []
        for each in kept:
            try:
                original = Path(each.path).read_bytes()
            except OSError:
                return None
            if digest_of(original) != each.original:
                return None
            changes.append(Change(each.path, original, each.result))
        return outcome, tuple(changes)

    def add(self, task: Task, outcome: Outcome, changes: Sequence[Change] | None = None) -> None:
        """Keep an outcome, unless it is a failure.

        Args:
            task: what was done.
            outcome: what it gave.
            changes: the files that change, for `find_changes`; None if their bytes need not be kept.
        """
        if self._connection is None or outcome.failure is not None or outcome.source.digest is None:
            return
        if os.path.islink(task.path):  # noqa: PTH114 - its imports start from another folder
            return
        parts = [self._files.missing_part(each.path) for each in outcome.dependencies if each.digest is None]
        missing: dict[str, list[str]] = {}
        for part in dict.fromkeys(parts):
            if part is None:  # it was created meanwhile
                return
            missing.setdefault(part[0], []).append(part[1])
        roots = self._roots_of(task.path)
        details = _Details(outcome.decisions, outcome.cells, outcome.recorded_source, outcome.elsewhere)
        try:
            packed = self._encoder.encode(details)
            packed_changes = b"" if changes is None else self._pack(changes)
            "".join((roots, *missing, *(name for names in missing.values() for name in names))).encode()
        except UnicodeEncodeError:  # file names need not be valid text
            return
        folder = _in_order(os.path.dirname(task.path))  # noqa: PTH120
        kept = self._pending.setdefault((self._run(task), folder, roots), {})
        kept[_in_order(task.path)] = _Kept(
            outcome.source,
            outcome.status,
            outcome.lines,
            outcome.result_digest,
            packed,
            tuple(each for each in outcome.dependencies if each.digest is not None),
            outcome.lookups,
            task.packages.folders,
            missing,
            packed_changes,
        )
        self._pending_count += 1
        if self._pending_count >= _FLUSH_AFTER or time.monotonic() - self._flushed_s > _FLUSH_AFTER_S:
            self._flush()

    def _pack(self, changes: Sequence[Change]) -> bytes:
        kept = [_KeptChange(each.path, digest_of(each.original), each.result) for each in changes]
        return zlib.compress(self._encoder.encode(kept))

    # ---- reading ----

    def _run(self, task: Task) -> bytes:
        """A digest of what is the same for a whole run; consecutive scripts mostly share it."""
        # An outcome depends on the path only through the source comment.
        if task.name == os.path.basename(task.path):  # noqa: PTH119
            place = ""
        elif task.path.endswith(task.name):
            place = task.path[: -len(task.name)]
        else:
            place = f"{task.path} as {task.name}"
        if self._last_run is not None:
            last, last_place, run = self._last_run
            if (
                place == last_place
                and task.settings is last.settings
                and task.packages is last.packages
                and task.goal == last.goal
                and task.was_found == last.was_found
                and task.looks_elsewhere == last.looks_elsewhere
                and task.called == last.called
                and task.restated == last.restated
            ):
                return run
        parts = (
            repr(task.settings),
            task.goal,
            str(task.was_found),
            str(task.looks_elsewhere),
            " ".join(task.called),
            " ".join(task.restated),
            *task.packages.folders,
            place,
        )
        stated = "\0".join(parts).encode("utf-8", "surrogateescape")
        run = digest_of(self._environment + stated)
        self._last_run = (task, place, run)
        return run

    def _row(self, connection: sqlite3.Connection, run: bytes, path: bytes) -> _Row | None:
        if self._page is None or not self._page.covers(run, path):
            query = (
                "select path, folder, modified_ns, size, digest, status, lines, result_digest, sources, lookups"
                " from results"
                f" where run = ? and path >= ? order by path limit {_PAGE}"
            )
            rows = {row[0]: _Row(*row) for row in connection.execute(query, (run, path))}
            last = next(reversed(rows)) if len(rows) == _PAGE else None
            self._page = _Page(run, path, last, rows)
        return self._page.rows.get(path)

    def _holds(self, connection: sqlite3.Connection, run: bytes, task: Task, row: _Row) -> bool:
        """Whether a script and everything that was read or searched for it are unchanged."""
        path = task.path
        come = self._come_to_folder(connection, row.folder, path)
        if come is None or (come and not self._is_independent_of(connection, run, row, come)):
            return False
        state = self._files.state(path)
        if state != (row.modified_ns, row.size):
            if state is None or not self._files.has_content(path, row.digest):
                return False
            if is_settled(state[0]):
                self._newer_scripts[run, row.path] = state
        return self._dependencies.hold(connection, row.sources, row.lookups, task.packages.folders)

    def _is_independent_of(
        self, connection: sqlite3.Connection, run: bytes, row: _Row, come: dict[str, frozenset[str]]
    ) -> bool:
        """Whether a script did not search for the names that exist now, unlike other scripts of its folder."""
        query = "select missing from results where run = ? and path = ?"
        found = connection.execute(query, (run, row.path)).fetchone()
        if found is None:  # cleared by another run
            return False
        missing = self._missing_decoder.decode(found[0])
        return all(names.isdisjoint(missing.get(folder, ())) for folder, names in come.items())

    def _come_to_folder(
        self, connection: sqlite3.Connection, number: int, path: str
    ) -> dict[str, frozenset[str]] | None:
        """Names that a folder's scripts missed and that exist now, by their folder; None if they search elsewhere."""
        if number not in self._come:
            if number not in self._folders:
                if len(self._come) > _MAX_HELD:
                    self._come.clear()
                self._folders.clear()
                query = "select number, used, roots, missing from folders where number >= ? order by number limit 128"
                self._folders.update((row[0], row[1:]) for row in connection.execute(query, (number,)))
            used, roots, packed = self._folders.get(number, (self._today, None, b""))
            if roots != self._roots_of(path):
                self._come[number] = None
                self._stale.add(number)
                return None
            if used != self._today:
                self._touched.add(number)
            missing = self._missing_decoder.decode(packed)
            come = {folder: self._files.come(folder, names) for folder, names in missing.items()}
            self._come[number] = {folder: names for folder, names in come.items() if names}
        return self._come[number]

    def _roots_of(self, path: str) -> str:
        return "\0".join(self._search.roots(os.path.dirname(path)))  # noqa: PTH120

    # ---- writing ----

    def _open(self) -> sqlite3.Connection | None:
        connection = None
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            path = self._directory / f"results-{_FORMAT}.sqlite"
            connection = sqlite3.connect(path, timeout=5, isolation_level=None)
            # A write-ahead log does not work on the network file systems of clusters.
            connection.execute("pragma journal_mode = truncate")
            connection.execute("pragma synchronous = off")
            connection.executescript(_SCHEMA)
            _forget_old(connection, self._today)
        except (OSError, sqlite3.Error) as error:
            self._connection = connection
            self._repair(error)
            return None
        return connection

    def _repair(self, error: Exception) -> None:
        """Stop using the cache in this run, and delete it if it is damaged."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        is_damaged = not isinstance(error, (OSError, sqlite3.OperationalError))
        if is_damaged:
            clear(self._directory)

    def _flush(self) -> None:
        """Write the new outcomes in one short transaction, because other runs may be waiting."""
        connection = self._connection
        news = (self._pending, self._stale, self._touched, self._newer_scripts)
        is_any = any(news) or self._dependencies.has_news
        if connection is not None and is_any:
            try:
                connection.execute("begin immediate")
                self._write(connection)
                connection.execute("commit")
            except (sqlite3.Error, msgspec.MsgspecError, ValueError) as error:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("rollback")
                self._repair(error)
        self._pending.clear()
        self._stale.clear()
        self._touched.clear()
        self._newer_scripts.clear()
        self._dependencies.forget_news()
        self._pending_count = 0
        self._flushed_s = time.monotonic()

    def _write(self, connection: sqlite3.Connection) -> None:
        for number in self._stale:
            connection.execute("delete from folders where number = ?", (number,))
        for place, kept in self._pending.items():
            self._write_folder(connection, place, kept)
        for number in self._touched:
            connection.execute("update folders set used = ? where number = ?", (self._today, number))
        for (run, path), state in self._newer_scripts.items():
            query = "update results set modified_ns = ?, size = ? where run = ? and path = ?"
            connection.execute(query, (*state, run, path))
        self._dependencies.write_news(connection)

    def _write_folder(
        self, connection: sqlite3.Connection, place: tuple[bytes, bytes, str], kept: dict[bytes, _Kept]
    ) -> None:
        query = "select number, missing from folders where run = ? and path = ? and roots = ?"
        number, packed = connection.execute(query, place).fetchone() or (None, b"\x80")
        missing = {within: set(names) for within, names in self._missing_decoder.decode(packed).items()}
        for each in kept.values():
            for within, names in each.missing.items():
                missing.setdefault(within, set()).update(names)
        packed = self._encoder.encode({within: sorted(names) for within, names in missing.items()})
        if number is None:
            query = "insert or replace into folders (run, path, roots, used, missing) values (?, ?, ?, ?, ?)"
            number = connection.execute(query, (*place, self._today, packed)).lastrowid
        else:
            query = "update folders set used = ?, missing = ? where number = ?"
            connection.execute(query, (self._today, packed, number))
        connection.executemany(
            "insert or replace into results values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    place[0],
                    path,
                    number,
                    each.script.modified_ns,
                    each.script.size,
                    each.script.digest,
                    each.status,
                    each.lines,
                    each.result_digest,
                    number_sources(connection, each.sources),
                    number_lookups(connection, each.folders, each.lookups),
                    each.details,
                    self._encoder.encode(each.missing),
                    each.changes,
                )
                for path, each in kept.items()
            ],
        )


def clear(directory: Path) -> None:
    """Delete the cache in `directory`."""
    for path in directory.glob("results-*.sqlite*"):
        with contextlib.suppress(OSError):
            path.unlink()


def _in_order(path: str) -> bytes:
    """A path as a key that sorts in walk order: entries by name, each folder's contents at the folder's place."""
    return os.fsencode(path).replace(os.fsencode(os.sep), b"\0")


def _forget_old(connection: sqlite3.Connection, today: int) -> None:
    """Once a day, delete outcomes that have not been used for a long time."""
    if connection.execute("pragma user_version").fetchone()[0] == today:
        return
    connection.execute("begin immediate")
    connection.execute("delete from folders where used < ?", (today - _KEPT_DAYS,))
    connection.execute("delete from results where folder not in (select number from folders)")
    if kept_dependencies.are_too_many(connection):
        for table in ("results", "folders", *kept_dependencies.TABLES):
            connection.execute(f"delete from {table}")
    connection.execute(f"pragma user_version = {today}")
    connection.execute("commit")


def _environment_digest() -> bytes:
    """A digest of this tool's own code and of the Python whose grammar is used."""
    code = sorted(_list_code(os.path.dirname(os.path.dirname(__file__))))  # noqa: PTH120
    return digest_of("\n".join([__version__, sys.version, sys.byteorder, *code]).encode("utf-8", "surrogateescape"))


def _list_code(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _list_code(entry.path)
            elif entry.name.endswith(".py"):
                status = entry.stat()
                yield f"{entry.path} {status.st_mtime_ns} {status.st_size}"
