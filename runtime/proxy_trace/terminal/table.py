"""Formats rows as aligned columns of plain text. Cells are never cut, so names can be searched and piped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONTINUED: Final = "    "
_WIDEST: Final = 200
"""The maximum width of a column in alignment, so that one long name does not widen all rows."""


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
        rows: rows with the same number of cells.
        sides: a letter per column: "r" to align right, "l" to align left.
        width: the number of columns of text available. Rows and header are continued on further lines if they are
            wider. None for no limit.
        break_before: the column that begins the second line, if there are several lines.
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
    """The number of lines that `format_table` needs for a row."""
    return len(_groups(_widths(header, rows), width, break_before))


def _widths(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [min(max(map(len, column)), _WIDEST) for column in zip(header, *rows, strict=True)]


def _groups(widths: Sequence[int], width: int | None, break_before: int | None) -> list[tuple[int, int]]:
    """The columns on each line, as half-open ranges."""
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
