"""Positions of cell source strings in a notebook's JSON text, so that the rest can stay unchanged."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_BLANK = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


class Literal(NamedTuple):
    """A string in JSON text: its value, and its span including the quotes."""

    value: str
    start: int
    end: int


class CellSource(NamedTuple):
    """The source of one code cell.

    Attributes:
        number: the cell's number from 1, counting cells of all kinds.
        literals: its source: a single string, or one for each line.
        is_list: whether the source is a list of strings.
    """

    number: int
    literals: tuple[Literal, ...]
    is_list: bool

    @property
    def text(self) -> str:
        """The whole source."""
        return "".join(literal.value for literal in self.literals)


def find_code_cells(text: str) -> list[CellSource]:
    """Find the sources of a notebook's code cells, in order.

    Raises:
        ValueError: `text` is not JSON, or not a notebook of format 4.
    """
    document = _Scanner(text).scan()
    if not isinstance(document, dict) or not isinstance(document.get("cells"), list):
        raise ValueError("it has no list of cells, which notebooks of format 4 have")
    found = []
    for number, cell in enumerate(document["cells"], start=1):
        if not isinstance(cell, dict) or _value(cell.get("cell_type")) != "code":
            continue
        source = cell.get("source")
        if isinstance(source, Literal):
            found.append(CellSource(number, (source,), is_list=False))
        elif isinstance(source, list) and all(isinstance(each, Literal) for each in source):
            found.append(CellSource(number, tuple(source), is_list=True))
        else:
            raise ValueError(f"cell {number} has no source")
    return found


def _value(literal: object) -> object:
    return literal.value if isinstance(literal, Literal) else None


class _Scanner:
    """Reads JSON as `json.loads` does, with a `Literal` for each string; other values are skipped."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._decoder = json.JSONDecoder()

    def scan(self) -> Any:
        value, end = self._scan(self._skip_blank(0))
        if self._skip_blank(end) != len(self._text):
            raise ValueError(f"there is text after its end, at character {end}")
        return value

    def _scan(self, at: int) -> tuple[Any, int]:
        first = self._text[at : at + 1]
        if first == '"':
            found = _STRING.match(self._text, at)
            if found is None:
                raise ValueError(f"a string is not closed, at character {at}")
            return Literal(json.loads(found[0]), at, found.end()), found.end()
        if first == "{":
            return self._scan_object(at)
        if first == "[":
            return self._scan_list(at)
        return self._decoder.raw_decode(self._text, at)

    def _scan_list(self, at: int) -> tuple[list[Any], int]:
        items = []
        at = self._skip_blank(at + 1)
        while self._text[at : at + 1] != "]":
            item, at = self._scan(at)
            items.append(item)
            at = self._next(at, "]")
        return items, at + 1

    def _scan_object(self, at: int) -> tuple[dict[str, Any], int]:
        entries: dict[str, Any] = {}
        at = self._skip_blank(at + 1)
        while self._text[at : at + 1] != "}":
            key, at = self._scan(at)
            at = self._skip_blank(at)
            if not isinstance(key, Literal) or self._text[at : at + 1] != ":":
                raise ValueError(f"it is not JSON at character {at}")
            entries[key.value], at = self._scan(self._skip_blank(at + 1))
            at = self._next(at, "}")
        return entries, at + 1

    def _next(self, at: int, closing: str) -> int:
        """Move past a value, to the next one or to the end of its container."""
        at = self._skip_blank(at)
        if self._text[at : at + 1] == ",":
            return self._skip_blank(at + 1)
        if self._text[at : at + 1] != closing:
            raise ValueError(f"it is not JSON at character {at}")
        return at

    def _skip_blank(self, at: int) -> int:
        found = _BLANK.match(self._text, at)
        return found.end() if found else at
