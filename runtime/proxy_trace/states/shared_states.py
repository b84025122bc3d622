"""Stores the states of several processes, sharing what is equal."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from proxy_trace.states.state_reader import State

_MOST_WHOLE: Final = 16
"""The most states that are stored in full; others are stored as differences from one of these."""

_MOST_APART: Final = 4
"""A state is also stored in full if more than one in this many of its entries differ from all stored ones."""


class _Apart(NamedTuple):
    """The difference of one table from another: changed or added entries, and removed keys."""

    entries: dict[Any, Any]
    absent: tuple[Any, ...]


class _Kept(NamedTuple):
    """A stored state: the index of a full one, and the difference of each table; None for an equal table."""

    whole: int
    tables: tuple[_Apart | None, ...]


class SharedStates:
    """States, in the order in which they were added. Memory grows with the differences between them."""

    def __init__(self) -> None:
        self._whole: list[State] = []
        self._kept: list[_Kept] = []

    def add(self, state: State) -> None:
        """Store a state, which must not be changed afterwards."""
        nearest, least = _Kept(0, ()), -1
        for number, whole in enumerate(self._whole):
            tables = tuple(_apart(one, other) for one, other in zip(_tables(whole), _tables(state), strict=True))
            size = sum(len(table.entries) + len(table.absent) for table in tables if table is not None)
            if least < 0 or size < least:
                nearest, least = _Kept(number, tables), size
            if not least:
                break
        size = sum(map(len, _tables(state)))
        if least < 0 or (least * _MOST_APART > size and len(self._whole) < _MOST_WHOLE):
            nearest = _Kept(len(self._whole), (None,) * len(state))
            self._whole.append(state)
        self._kept.append(nearest)

    def state(self, place: int) -> State:
        """A copy of a stored state, which may be changed."""
        kept = self._kept[place]
        whole = _tables(self._whole[kept.whole])
        return State(*(_joined(table, apart) for table, apart in zip(whole, kept.tables, strict=True)))


def _tables(state: State) -> tuple[dict[Any, Any], ...]:
    return tuple(state)


def _apart(whole: dict[Any, Any], table: dict[Any, Any]) -> _Apart | None:
    if table == whole:
        return None
    none = object()
    entries = {key: value for key, value in table.items() if whole.get(key, none) != value}
    return _Apart(entries, tuple(key for key in whole if key not in table))


def _joined(whole: dict[Any, Any], apart: _Apart | None) -> dict[Any, Any]:
    if apart is None:
        return dict(whole)
    table = {**whole, **apart.entries}
    for key in apart.absent:
        del table[key]
    return table
