"""Outcomes of earlier runs, kept on the disk: a file that is as it was, and all it depends on, is not read again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from instrumentor import __version__
from instrumentor.engine.outcome import Outcome, digest_of, stat_file

if TYPE_CHECKING:
    from instrumentor.engine.outcome import FileState, Task
    from instrumentor.settings import Settings

_FORMAT = 1
_KEPT_SECONDS = 30 * 24 * 3600
_COMMIT_EVERY = 256

_SCHEMA = """
create table if not exists results (
    key blob primary key,       -- of the file's path, the settings and everything that is the same for a whole run
    used integer not null,      -- the day, in seconds since 1970
    outcome blob not null
) without rowid
"""


class ResultsCache:
    """A table of outcomes by file and settings; a context manager, so that what is new in it is kept.

    Runs at the same time may share it. What goes wrong with it costs time, never the run: then nothing is found.
    """

    def __init__(self, directory: Path) -> None:
        """Open the cache in `directory`, which is made if need be."""
        self._environment = _environment_digest()
        self._decoder = msgspec.msgpack.Decoder(Outcome)
        self._encoder = msgspec.msgpack.Encoder()
        self._settings: dict[Settings, bytes] = {}
        self._states: dict[str, tuple[int, int] | None] = {}
        self._digests: dict[str, bytes] = {}
        self._names: dict[str, frozenset[str] | None] = {}
        self._today = int(time.time()) // 86400 * 86400
        self._new = 0
        self._connection: sqlite3.Connection | None = None
        with contextlib.suppress(OSError, sqlite3.Error):
            directory.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(directory / f"results-{_FORMAT}.sqlite", timeout=5, isolation_level=None)
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = off")
            connection.execute(_SCHEMA)
            connection.execute("delete from results where used < ?", (self._today - _KEPT_SECONDS,))
            connection.execute("begin")
            self._connection = connection

    def __enter__(self) -> ResultsCache:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("commit")
            self._connection.close()
            self._connection = None

    def find(self, task: Task) -> Outcome | None:
        """The outcome of a task as it was found before, without the bytes; None where it may be another one now."""
        if self._connection is None:
            return None
        try:
            key = self._key(task)
            row = self._connection.execute("select used, outcome from results where key = ?", (key,)).fetchone()
            if row is None:
                return None
            outcome = self._decoder.decode(row[1])
            if not all(map(self._is_unchanged, (outcome.source, *outcome.dependencies))):
                return None
            if row[0] != self._today:
                self._connection.execute("update results set used = ? where key = ?", (self._today, key))
        except (OSError, sqlite3.Error, msgspec.MsgspecError):
            return None
        return outcome

    def add(self, task: Task, outcome: Outcome) -> None:
        """Keep an outcome; failures are looked at anew each time."""
        if self._connection is None or outcome.failure is not None:
            return
        kept = self._encoder.encode(replace(outcome, original=None, result=None))
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute(
                "insert or replace into results values (?, ?, ?)", (self._key(task), self._today, kept)
            )
            self._new += 1
            if self._new % _COMMIT_EVERY == 0:  # others wait for the lock, and an interrupted run is to keep its work
                self._connection.execute("commit")
                self._connection.execute("begin")

    def _key(self, task: Task) -> bytes:
        settings = self._settings.get(task.settings)
        if settings is None:
            settings = self._settings[task.settings] = repr(task.settings).encode()
        parts = (
            self._environment,
            settings,
            task.goal.encode(),
            b"%d" % task.was_found,
            task.packages.digest,
            task.name.encode("utf-8", "surrogateescape"),
        )
        return digest_of(b"\0".join((*parts, os.fsencode(task.path))))

    def _is_unchanged(self, file: FileState) -> bool:
        """Whether a file is as it was: by its time and size, else by its content, which is read once."""
        if file.digest is None:
            return self._is_absent(file.path)
        if file.path not in self._states:
            self._states[file.path] = stat_file(file.path)
        now = self._states[file.path]
        if now is None:
            return False
        if now == (file.modified_ns, file.size):
            return True
        if file.path not in self._digests:
            self._digests[file.path] = digest_of(Path(file.path).read_bytes())
        return self._digests[file.path] == file.digest

    def _is_absent(self, path: str) -> bool:
        """Whether there is no file still; most of what is looked for would lie in folders that are not there either."""
        folder, name = os.path.split(path)
        names = self._names_in(folder)
        return stat_file(path) is None if names is None else name not in names

    def _names_in(self, folder: str) -> frozenset[str] | None:
        """The names in a folder, read once, and not at all where the one above has no such folder; None if unknown."""
        if folder not in self._names:
            above, name = os.path.split(folder)
            siblings = None if above == folder or name in ("", ".", "..") else self._names_in(above)
            self._names[folder] = _list_names(folder) if siblings is None or name in siblings else frozenset()
        return self._names[folder]


def _list_names(folder: str) -> frozenset[str] | None:
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError:  # a folder may be passed through that may not be listed
        return None


def clear(directory: Path) -> None:
    """Remove what is kept in `directory`."""
    for path in directory.glob("results-*.sqlite*"):
        with contextlib.suppress(OSError):
            path.unlink()


def _environment_digest() -> bytes:
    """A digest of what is the same for a whole run: this tool's own code, and the Python whose grammar is used."""
    package = Path(__file__).parents[1]
    code = [
        f"{path.relative_to(package)} {status.st_mtime_ns} {status.st_size}"
        for path in sorted(package.rglob("*.py"))
        for status in (path.stat(),)
    ]
    return hashlib.blake2b("\n".join([__version__, sys.version, *code]).encode(), digest_size=16).digest()
