"""What is to be known of notebooks without reading one."""

from __future__ import annotations

import re

SUFFIX = ".ipynb"
# How reasons name lines: `line 7`, `line 7 or 9`.
_LINES = re.compile(r"\bline (\d+(?: or \d+)*)")


def is_notebook(path: str) -> bool:
    """Whether a path names a notebook."""
    return path.endswith(SUFFIX)


def place_in_cells(line: int, cells: tuple[tuple[int, int], ...]) -> tuple[int | None, int]:
    """The cell and the line in it for a line of a notebook's code; no cell and the line itself for a script."""
    for start, number in reversed(cells):
        if start <= line:
            return number, line - start + 1
    return None, line


def describe_line(line: int, cells: tuple[tuple[int, int], ...]) -> str:
    """A line as a reader finds it: `line 12`, of a notebook `cell 3 line 4`."""
    cell, line = place_in_cells(line, cells)
    return f"line {line}" if cell is None else f"cell {cell} line {line}"


def describe_lines_in(text: str, cells: tuple[tuple[int, int], ...]) -> str:
    """A reason with the lines that it speaks of as a reader finds them."""
    if not cells:
        return text
    return _LINES.sub(
        lambda found: " or ".join(describe_line(int(each), cells) for each in found[1].split(" or ")), text
    )
