"""Finds the lines of a function that compute a softmax over the first dimension."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES: Final = frozenset({"softmax", "log_softmax", "Softmax", "LogSoftmax"})


def softmax_lines(function: ast.FunctionDef) -> Iterator[int]:
    """The lines that call a softmax with dimension 0, `softmax(scores, dim=0)` or `scores.softmax(0)`, each once."""
    lines: dict[int, None] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and last_name(node.func) in _NAMES:
            given = [each.value for each in node.keywords if each.arg in ("dim", "axis")] or node.args[-1:]
            if any(isinstance(each, ast.Constant) and each.value == 0 for each in given):
                lines[node.lineno] = None
    yield from lines
