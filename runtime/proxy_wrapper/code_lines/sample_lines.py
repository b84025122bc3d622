"""Finds the lines of a function that draw from a distribution without a gradient."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_DRAWS: Final = "sample"


def sample_lines(function: ast.AST) -> Iterator[int]:
    """The lines that call `sample()` without arguments, as of a distribution, not of a buffer; each once.

    Those of functions within are included.
    """
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call) and not (node.args or node.keywords))
    yield from dict.fromkeys(
        call.lineno for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == _DRAWS
    )
