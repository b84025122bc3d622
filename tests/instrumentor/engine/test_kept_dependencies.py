"""Things that outcomes depend on have numbers, which mean the same for ever."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest

from instrumentor.engine import kept_dependencies
from instrumentor.engine.kept_dependencies import are_too_many, number_lookups, number_sources
from instrumentor.paths.file_state import FileState
from instrumentor.resolve.module_places import Lookup

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(":memory:")) as opened:
        opened.executescript(kept_dependencies.SCHEMA)
        yield opened


def number_both(connection: sqlite3.Connection, name: str) -> tuple[bytes, bytes]:
    """The numbers of a file and of a module of one name."""
    source = number_sources(connection, [FileState(f"/{name}.py", name.encode())])
    return source, number_lookups(connection, ("/lib",), [Lookup(name, f"/lib/{name}.py")])


def forget_all(connection: sqlite3.Connection) -> None:
    for table in kept_dependencies.TABLES:
        connection.execute(f"delete from {table}")


def test_one_thing_has_one_number(connection: sqlite3.Connection) -> None:
    assert number_both(connection, "a") == number_both(connection, "a") != number_both(connection, "b")


def test_what_is_forgotten_leaves_its_number_to_nothing_else(connection: sqlite3.Connection) -> None:
    before = number_both(connection, "a")
    forget_all(connection)
    after = number_both(connection, "b")
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_they_are_too_many_only_until_they_are_forgotten(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_dependencies, "_MAX_KEPT", 2)
    assert not are_too_many(connection)
    for name in "abc":
        number_both(connection, name)
    assert are_too_many(connection)
    forget_all(connection)
    number_both(connection, "d")
    assert not are_too_many(connection)
