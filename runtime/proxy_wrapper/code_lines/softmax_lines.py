"""Finds the lines of a function that compute a softmax over the first dimension."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.code_lines.outputs_of_calls import SAME_SHAPE, source_of, stripped, variable_of_call
from proxy_wrapper.program_code.syntax import last_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES: Final = frozenset({"softmax", "log_softmax", "Softmax", "LogSoftmax"})
"""The functions and layers of PyTorch that compute a softmax."""


def softmax_lines(function: ast.FunctionDef) -> Iterator[int]:
    """The lines that call a softmax with dimension 0, `softmax(scores, dim=0)` or `scores.softmax(0)`, each once."""
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    yield from dict.fromkeys(call.lineno for call in calls if _is_over_first(call))


def softmax_of_call(function: ast.AST, line: int, is_model: Callable[[ast.expr], bool]) -> int:
    """The line that computes a softmax over the first dimension of what a function gets from a model at a line; else 0.

    Args:
        function: the syntax of the function, or of the script whose code calls the model.
        line: the line that calls the model.
        is_model: whether an expression is the model.
    """
    name = variable_of_call(function, line, is_model, SAME_SHAPE)
    for node in ast.walk(function):
        scores = _scores(node) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and scores is not None:
            value = stripped(scores, SAME_SHAPE)
            is_call = isinstance(value, ast.Call) and is_model(value.func) and value.lineno == line
            if is_call or (name is not None and source_of(scores, SAME_SHAPE) == name):
                return node.lineno
    return 0


def _scores(call: ast.Call) -> ast.expr | None:
    """That of which a call computes a softmax over the first dimension; None if it computes another thing."""
    if isinstance(call.func, ast.Call):  # nn.Softmax(dim=0)(scores)
        return call.args[0] if call.args and _is_over_first(call.func) else None
    if not _is_over_first(call) or not isinstance(call.func, (ast.Attribute, ast.Name)):
        return None
    is_method = isinstance(call.func, ast.Attribute) and len(call.args) + len(call.keywords) == 1
    if isinstance(call.func, ast.Attribute) and is_method:
        return call.func.value
    return call.args[0] if call.args else None


def _is_over_first(call: ast.Call) -> bool:
    if last_name(call.func) not in NAMES:
        return False
    given = [each.value for each in call.keywords if each.arg in ("dim", "axis")] or call.args[-1:]
    return any(isinstance(each, ast.Constant) and each.value == 0 for each in given)
