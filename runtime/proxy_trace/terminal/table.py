"""Rows as aligned columns of plain text. No cell is ever cut: names stay whole for search and pipes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONTINUED: Final = "    "
_WIDEST: Final = 200
"""Columns get no wider than this: one long name must not make all rows as long."""


def format_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    sides: str,
    width: int | None = None,
    break_before: int | None = None,
) -> list[str]:
    """Lines of a table, the header first.

    Args:
        header: the titles of the columns.
        rows: as many cells each.
        sides: a letter for each column: "r" for one that is aligned to the right, "l" to the left.
        width: of how many columns of text there is room; each row, and the header, goes on in another line with the
            columns that have none left. None for any width.
        break_before: the column that is first in another line, if there have to be several.
    """
    widths = _widths(header, rows)
    lines = []
    groups = _groups(widths, width, break_before)
    for row in (header, *rows):
        cells = [
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(row, widths, sides, strict=True)
        ]
        for number, (first, last) in enumerate(groups):
            lines.append((_CONTINUED if number else "") + "  ".join(cells[first:last]).rstrip())
    return lines


def lines_of_a_row(
    header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, break_before: int | None = None
) -> int:
    """In how many lines `format_table` puts a row, and the header."""
    return len(_groups(_widths(header, rows), width, break_before))


def _widths(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [min(max(map(len, column)), _WIDEST) for column in zip(header, *rows, strict=True)]


def _groups(widths: Sequence[int], width: int | None, break_before: int | None) -> list[tuple[int, int]]:
    """The columns that stand in one line: from which to before which."""
    if width is None or sum(widths) + 2 * (len(widths) - 1) <= width:
        return [(0, len(widths))]
    groups: list[tuple[int, int]] = []
    first, size = 0, 0
    for column, needed in enumerate(widths):
        indent = len(_CONTINUED) if groups else 0
        if column > first and (column == break_before or indent + size + 2 + needed > width):
            groups.append((first, column))
            first, size = column, needed
        else:
            size += needed + (2 if column > first else 0)
    return [*groups, (first, len(widths))]
