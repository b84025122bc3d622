"""Records of every kind as rows of one table: the columns and their values.

The columns are derived from the record classes, so new kinds and fields appear here automatically. A field is stored in
the column of its name, which several kinds may share. Fields that a kind lacks are null, and fields at their default
are written out. Exceptions:

- the header's `version` is in `run_version`, because updates have a numeric `version`;
- the header's `run` and `rank` are in every row (in a Parquet dataset, as partition columns);
- `statistics` of one tensor are in `minimum`, `maximum`, `norm`, `nonfinite` and `bits`, null if there are none; those
  of several tensors are lists with an item per tensor, such as `output_minimum` for `outputs` and `changed_minimum`
  for `changed`;
- values read by the program (kind `read_value`) and the truth of a condition (kind `flow_step`) are JSON in `value`;
- three columns are added for convenience: `module_name`, `tensor_name` and `place` ("file:line") resolve the ids in
  `module`, `tensor` and `location`.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from proxy_trace.reading.trace import KINDS
from proxy_wrapper.events import Number, Run, Statistics

if TYPE_CHECKING:
    from proxy_trace.reading.names import Names
    from proxy_wrapper.events import AnyEvent

OF_THE_PROCESS: Final = ("run", "rank")
"""Header fields that identify the file. They are not columns of the table itself."""


class Type(Enum):
    """The type of a column."""

    INT = "integer"
    NUMBER = "number"
    BOOL = "boolean"
    TEXT = "text"
    TEXTS = "list of texts"
    INTS = "list of integers"
    NUMBERS = "list of numbers"
    TEXT_MAP = "map from text to text"
    INT_MAP = "map from text to integer"
    JSON = "JSON"


class Column(NamedTuple):
    """A column, and the kinds that have values in it."""

    name: str
    type: Type
    kinds: tuple[str, ...]


_TYPES: Final[dict[Any, Type]] = {
    int: Type.INT,
    float: Type.NUMBER,
    bool: Type.BOOL,
    str: Type.TEXT,
    list[str]: Type.TEXTS,
    Sequence[str]: Type.TEXTS,
    Sequence[int]: Type.INTS,
    Sequence[Number]: Type.NUMBERS,
    dict[str, str]: Type.TEXT_MAP,
    dict[str, int]: Type.INT_MAP,
}


def _type_of(annotation: Any) -> Type:
    """The column type for a field. Anything that is not a plain value is stored as JSON."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        some = [each for each in typing.get_args(annotation) if each is not types.NoneType]
        if len(some) == 1:
            return _type_of(some[0])
        if float in some and all(each is float or typing.get_origin(each) is typing.Literal for each in some):
            return Type.NUMBER
        return Type.JSON
    return _TYPES.get(annotation, Type.JSON)


_STATISTICS: Final = {name: _type_of(annotation) for name, annotation in typing.get_type_hints(Statistics).items()}
_LISTS: Final = {Type.NUMBER: Type.NUMBERS, Type.INT: Type.INTS, Type.TEXT: Type.TEXTS}
_OF_SEVERAL: Final = {"statistics": "output", "changed_statistics": "changed"}
"""Fields with statistics of several tensors, and the prefix of their columns."""

_COLUMNS_OF_SEVERAL: Final = {f"{of}_{number}": number for of in _OF_SEVERAL.values() for number in _STATISTICS}
"""The columns of these statistics, and the statistic in each."""

_RENAMED: Final = {("version", Type.TEXT): "run_version"}
_AS_JSON: Final = {("value", Type.BOOL)}
"""Fields whose column also holds values of other types."""

_NAMES_OF_IDS: Final = {"module": "module_name", "tensor": "tensor_name", "location": "place"}


@cache
def fields_of(event_class: type) -> dict[str, Type]:
    """The columns in which records of a class have values, and their types."""
    return {column: type_ for column, (_, type_) in _sources(event_class).items()}


@cache
def _sources(event_class: type) -> dict[str, tuple[str, Type]]:
    """For each column in which records of a class have values: its field and its type."""
    hints = typing.get_type_hints(event_class)
    found: dict[str, tuple[str, Type]] = {}
    for name in event_class.__struct_fields__:  # type: ignore[attr-defined]
        if event_class is Run and name in OF_THE_PROCESS:
            continue
        if hints[name] == Statistics | None:
            found.update({number: (name, type_) for number, type_ in _STATISTICS.items()})
            continue
        if name in _OF_SEVERAL:
            of = _OF_SEVERAL[name]
            found.update({f"{of}_{number}": (name, _LISTS[type_]) for number, type_ in _STATISTICS.items()})
            continue
        type_ = _type_of(hints[name])
        if (name, type_) in _AS_JSON:
            type_ = Type.JSON
        found[_RENAMED.get((name, type_), name)] = (name, type_)
        if name in _NAMES_OF_IDS:
            found[_NAMES_OF_IDS[name]] = (name, Type.TEXT)
    return found


@cache
def all_columns() -> tuple[Column, ...]:
    """All columns, in the order of the record classes, `kind` first."""
    merged: dict[str, tuple[Type, list[str]]] = {}
    for kind, event_class in KINDS.items():
        for name, type_ in fields_of(event_class).items():
            known = merged.get(name)
            if known is None:
                merged[name] = (type_, [kind])
                continue
            known[1].append(kind)
            if known[0] is not type_:
                # A column may hold text for one kind and JSON for another. Readers know which from the kind.
                merged[name] = (_common(name, known[0], type_), known[1])
    columns = [Column(name, type_, tuple(kinds)) for name, (type_, kinds) in merged.items()]
    return (Column("kind", Type.TEXT, tuple(KINDS)), *columns)


def _common(name: str, one: Type, other: Type) -> Type:
    if {one, other} <= {Type.TEXT, Type.JSON}:
        return Type.TEXT
    raise TypeError(f"fields called {name!r} are {one.value} in one kind of record and {other.value} in another")


class TableMaker:
    """Converts records of one file to columns."""

    def __init__(self, names: Names) -> None:
        """Set up.

        Args:
            names: the definitions of the ids in the file.
        """
        self._look_up = {
            "module_name": names.module_name,
            "tensor_name": names.tensor_name,
            "place": names.place,
        }
        self._encode = msgspec.json.Encoder().encode

    def columns(self, events: Sequence[AnyEvent]) -> dict[str, list[Any]]:
        """The values of each column, one per event; None if an event has none."""
        positions: dict[type, list[int]] = {}
        for position, event in enumerate(events):
            positions.setdefault(type(event), []).append(position)
        table: dict[str, list[Any]] = {column.name: [None] * len(events) for column in all_columns()}
        for event_class, where in positions.items():
            of_class = [events[position] for position in where]
            kind = event_class.__struct_config__.tag  # type: ignore[attr-defined]
            _put(table["kind"], where, [kind] * len(where))
            for column, (field, type_) in _sources(event_class).items():
                _put(table[column], where, self._values(column, type_, list(map(attrgetter(field), of_class))))
        return table

    def _values(self, column: str, type_: Type, values: list[Any]) -> list[Any]:
        """The values of `column`, converted from those of its field."""
        look_up = self._look_up.get(column)
        if look_up is not None:
            known = {id_: look_up(id_) or None for id_ in set(values)}
            return [known[id_] for id_ in values]
        if column in _STATISTICS:
            values = [None if statistics is None else getattr(statistics, column) for statistics in values]
        elif column in _COLUMNS_OF_SEVERAL:
            number = _COLUMNS_OF_SEVERAL[column]
            values = [
                None if several is None else [None if each is None else getattr(each, number) for each in several]
                for several in values
            ]
        if type_ is Type.NUMBER:
            return [None if value is None else float(value) for value in values]  # NaN and infinities are text.
        if type_ is Type.NUMBERS:
            return [
                None if several is None else [None if value is None else float(value) for value in several]
                for several in values
            ]
        if type_ is Type.JSON:
            return [None if value is None else self._encode(value).decode() for value in values]
        return values


def _put(column: list[Any], positions: Sequence[int], values: Sequence[Any]) -> None:
    for position, value in zip(positions, values, strict=True):
        column[position] = value
