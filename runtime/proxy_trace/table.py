"""Rows as aligned columns of plain text, never cut to a terminal's width: names stay whole for search and pipes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDEST: Final = 200
"""Columns get no wider than this: one long name must not make all rows as long."""


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Lines of a table, the header first.

    Args:
        header: the titles of the columns.
        rows: as many cells each.
        sides: a letter for each column: "r" for one that is aligned to the right, "l" to the left.
    """
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        cells = [
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(row, widths, sides, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
