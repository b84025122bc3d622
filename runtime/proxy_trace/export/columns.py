"""Records of every kind as rows of one table: which columns there are, and what stands in them.

The columns are worked out from the record classes, so a kind or a field that is new there is new here. A field has
the column of its name; where several kinds have a field of one name, they share the column. What a record's kind
does not have is null in its row, and a field at its default is written out. The exceptions:

- the header's `version` stands in `run_version`, as updates have a `version` that is a number;
- the header's `run` and `rank` are columns of every row (in a Parquet dataset: those of the partition);
- `statistics` of one tensor stand as their fields: `minimum`, `maximum`, `norm`, `nonfinite`, `bits`, all null where
  there are none; those of several tensors as lists, an item for each tensor: `output_minimum` and so on beside
  `outputs`, and `changed_minimum` and so on beside `changed`;
- a value read by the program (kind `read_value`) and the truth of a test (kind `flow_step`) stand in `value` as JSON;
- three columns are there for convenience: `module_name`, `tensor_name` and `place` ("file:line") say what the ids
  in `module`, `tensor` and `location` stand for.
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
"""Fields of the header that say where a row is from; they are no columns of the table itself."""


class Type(Enum):
    """What a column holds."""

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
    """A column of the table, and the kinds whose rows have a value in it."""

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
    """The type of a column for a field; anything that is no plain value stands as JSON."""
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
"""Fields with statistics of several tensors, and what the names of their columns begin with."""

_COLUMNS_OF_SEVERAL: Final = {f"{of}_{number}": number for of in _OF_SEVERAL.values() for number in _STATISTICS}
"""The columns of those statistics, and which number stands in each."""

_RENAMED: Final = {("version", Type.TEXT): "run_version"}
_AS_JSON: Final = {("value", Type.BOOL)}
"""Fields that share their column with values of other types."""

_NAMES_OF_IDS: Final = {"module": "module_name", "tensor": "tensor_name", "location": "place"}


@cache
def fields_of(event_class: type) -> dict[str, Type]:
    """The columns in which records of a class have values, and of what type each is."""
    return {column: type_ for column, (_, type_) in _sources(event_class).items()}


@cache
def _sources(event_class: type) -> dict[str, tuple[str, Type]]:
    """For each column in which records of a class have values: the field that it is made from, and its type."""
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
    """Every column, in the order in which the record classes define them, `kind` first."""
    merged: dict[str, tuple[Type, list[str]]] = {}
    for kind, event_class in KINDS.items():
        for name, type_ in fields_of(event_class).items():
            known = merged.get(name)
            if known is None:
                merged[name] = (type_, [kind])
                continue
            known[1].append(kind)
            if known[0] is not type_:
                # Texts of one kind and JSON of another share a column: each kind knows how to read its own.
                merged[name] = (_common(name, known[0], type_), known[1])
    columns = [Column(name, type_, tuple(kinds)) for name, (type_, kinds) in merged.items()]
    return (Column("kind", Type.TEXT, tuple(KINDS)), *columns)


def _common(name: str, one: Type, other: Type) -> Type:
    if {one, other} <= {Type.TEXT, Type.JSON}:
        return Type.TEXT
    raise TypeError(f"fields called {name!r} are {one.value} in one kind of record and {other.value} in another")


class TableMaker:
    """Turns records of one file into columns of values."""

    def __init__(self, names: Names) -> None:
        """Make tables.

        Args:
            names: what the ids in the file stand for.
        """
        self._look_up = {
            "module_name": names.module_name,
            "tensor_name": names.tensor_name,
            "place": names.place,
        }
        self._encode = msgspec.json.Encoder().encode

    def columns(self, events: Sequence[AnyEvent]) -> dict[str, list[Any]]:
        """The values of each column, one for each of `events`, None where it has none."""
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
        """What stands in `column` for the values of the field that it is made from."""
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
            return [None if value is None else float(value) for value in values]  # NaN and infinities come as text.
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
