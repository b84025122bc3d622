"""What is to be known of notebooks without reading one."""

from __future__ import annotations

SUFFIX = ".ipynb"


def is_notebook(path: str) -> bool:
    """Whether a path names a notebook."""
    return path.endswith(SUFFIX)


def place_in_cells(line: int, cells: tuple[tuple[int, int], ...]) -> tuple[int | None, int]:
    """The cell and the line in it for a line of a notebook's code; no cell and the line itself for a script."""
    for start, number in reversed(cells):
        if start <= line:
            return number, line - start + 1
    return None, line
