"""A unified diff as rows of two columns, with the other lines that decisions refer to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from instrumentor.report.record import FileRecord

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})(?:,\d+)? @@")


class Row(NamedTuple):
    """One row: a line of the original beside a line of the result; either may be missing.

    Attributes:
        kind: "same", "added", "changed", or "gap" for omitted lines.
        old: the line's number in the original.
        old_text: its text.
        new: the line's number in the result.
        new_text: its text.
    """

    kind: Literal["same", "added", "changed", "gap"]
    old: int | None = None
    old_text: str = ""
    new: int | None = None
    new_text: str = ""


def rows_of(record: FileRecord) -> list[Row]:
    """The rows that show a file's changes, with gaps between rows that are not adjacent."""
    rows = list(_rows_of_diff(record.diff))
    shown = {row.old for row in rows}
    added = [(row.new, row.old) for row in rows if row.kind == "added" and row.new is not None]
    for quote in record.quotes:
        if quote.line not in shown:
            # Its line in the result: shifted by every line added before it.
            new = quote.line
            for number, _ in added:
                if number <= new:
                    new += 1
            rows.append(Row("same", quote.line, quote.text, new, quote.text))
    rows.sort(key=lambda row: row.new or 0)
    return list(_with_gaps(rows))


def _rows_of_diff(diff: str) -> Iterator[Row]:
    # Only "\n" ends a line of a diff; a form feed or U+2028 is text.
    lines = diff.split("\n")
    old = new = 0
    removed: list[str] = []
    for line in lines[2:]:
        hunk = _HUNK.match(line)
        if hunk is not None:
            yield from _leftover(removed, old)
            old, new = int(hunk[1]), int(hunk[2])
        elif line.startswith("-"):
            removed.append(line[1:])
        elif line.startswith("+"):
            if removed:
                yield Row("changed", old, removed.pop(0), new, line[1:])
                old += 1
            else:
                yield Row("added", None, "", new, line[1:])
            new += 1
        elif line.startswith(" "):
            left = len(removed)
            yield from _leftover(removed, old)
            old += left
            yield Row("same", old, line[1:], new, line[1:])
            old, new = old + 1, new + 1
    yield from _leftover(removed, old)


def _leftover(removed: list[str], old: int) -> Iterator[Row]:
    """The removed lines that have no counterpart."""
    for offset, text in enumerate(removed):
        yield Row("changed", old + offset, text, None, "")
    removed.clear()


def _with_gaps(rows: list[Row]) -> Iterator[Row]:
    last = 0
    for row in rows:
        if row.new is not None and row.new > last + 1:
            yield Row("gap")
        yield row
        last = row.new or last
