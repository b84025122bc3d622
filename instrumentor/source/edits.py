"""Insertions into lines of text, and their resulting positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class NewLine:
    """A whole line, with its line end, inserted after line `after` (from 1; 0 for the top)."""

    after: int
    text: str


@dataclass(frozen=True)
class NewText:
    """Text inserted into line `line` (from 1) before column `column` (from 0).

    `order` sorts insertions at the same place.
    """

    line: int
    column: int
    text: str
    order: tuple[int, ...] = (0,)


class Edited(NamedTuple):
    """The new lines, and each insertion in the source comment's notation, in the new text's coordinates."""

    lines: tuple[str, ...]
    added: list[str]


def apply_edits(lines: Sequence[str], edits: Iterable[NewLine | NewText]) -> Edited:
    """Apply insertions to lines; those at the same place keep their given order."""
    whole: dict[int, list[str]] = {}
    parts: dict[int, list[NewText]] = {}
    for edit in edits:
        if isinstance(edit, NewLine):
            whole.setdefault(edit.after, []).append(edit.text)
        else:
            parts.setdefault(edit.line, []).append(edit)
    edited: list[str] = []
    added: list[str] = []
    for number in range(len(lines) + 1):
        if number:
            text, spans = _insert(lines[number - 1], parts.get(number, []))
            edited.append(text)
            added.extend(f"{len(edited)}:{start}-{end}" for start, end in spans)
        for text in whole.get(number, []):
            edited.append(text)
            added.append(f"+{len(edited)}")
    return Edited(tuple(edited), added)


def _insert(line: str, parts: list[NewText]) -> tuple[str, list[tuple[int, int]]]:
    """A line with text inserted, and the resulting span of each piece."""
    spans: list[tuple[int, int]] = []
    grown = 0
    for part in sorted(parts, key=lambda each: (each.column, each.order)):
        start = part.column + grown
        line = line[:start] + part.text + line[start:]
        spans.append((start, start + len(part.text)))
        grown += len(part.text)
    return line, spans
