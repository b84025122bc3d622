"""Notebook names and cell positions, without reading a notebook."""

from __future__ import annotations

import re

SUFFIX = ".ipynb"
# Lines as written in reasons: `line 7`, `line 7 or 9`.
_LINES = re.compile(r"\bline (\d+(?: or \d+)*)")


def is_notebook(path: str) -> bool:
    """Whether a path names a notebook."""
    return path.endswith(SUFFIX)


def place_in_cells(line: int, cells: tuple[tuple[int, int], ...]) -> tuple[int | None, int]:
    """The cell, and the line in it, of a line of a notebook's code; for a script, None and the line itself."""
    for start, number in reversed(cells):
        if start <= line:
            return number, line - start + 1
    return None, line


def describe_line(line: int, cells: tuple[tuple[int, int], ...]) -> str:
    """A line as shown to a reader: `line 12`, or `cell 3 line 4` in a notebook."""
    cell, line = place_in_cells(line, cells)
    return f"line {line}" if cell is None else f"cell {cell} line {line}"


def describe_lines_in(text: str, cells: tuple[tuple[int, int], ...]) -> str:
    """A reason with its lines as shown to a reader."""
    if not cells:
        return text
    return _LINES.sub(
        lambda found: " or ".join(describe_line(int(each), cells) for each in found[1].split(" or ")), text
    )
