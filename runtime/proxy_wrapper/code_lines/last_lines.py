"""Finds the lines of a function that take the last item along a dimension of a tensor: `out[:, -1]`, `out[-1]`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def last_lines(function: ast.FunctionDef) -> Iterator[int]:
    """The lines with an index of -1 in the first or the second dimension, without duplicates."""
    lines: dict[int, None] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Subscript):
            continue
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if any(_is_last(part) for part in parts[:2]):
            lines[node.lineno] = None
    yield from lines


def _is_last(part: ast.expr) -> bool:
    is_negative = isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub)
    return is_negative and isinstance(part, ast.UnaryOp) and ast.unparse(part.operand) == "1"
