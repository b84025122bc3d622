"""Finds the lines of a function that view or reshape a tensor to a number of dimensions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_METHODS: Final = frozenset({"view", "reshape"})


def view_lines(function: ast.FunctionDef | ast.Module, dimensions: int) -> Iterator[int]:
    """The lines that call `view` or `reshape` with that many sizes, each once."""
    lines: dict[int, None] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            sizes = node.args
            if len(sizes) == 1 and isinstance(sizes[0], ast.Tuple):
                sizes = sizes[0].elts
            if len(sizes) == dimensions and not any(isinstance(each, ast.Starred) for each in sizes):
                lines[node.lineno] = None
    yield from lines
