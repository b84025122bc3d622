"""The numbers from which the loops around a line count are read, in its function and its callers."""

from __future__ import annotations

import ast
import inspect
import sys
from typing import TYPE_CHECKING

import pytest

from proxy_wrapper.code_lines.loop_starts import loop_starts

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

FIRST = 7


class Trainer:
    def __init__(self) -> None:
        self.start = 3

    def train(self) -> list[int]:
        found = []
        for _ in range(self.start, 4):
            found = starts()
        return found


def syntax_of(code: CodeType) -> ast.AST | None:
    tree = ast.parse(inspect.getsource(sys.modules[__name__]))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return next((node for node in functions if node.lineno == code.co_firstlineno), None)


def starts() -> list[int]:
    return list(loop_starts(sys._getframe(1), syntax_of, lambda code: code.co_filename == __file__))


def from_variable() -> list[int]:
    start, found = 2, []
    for _ in range(start, 3):
        for _ in range(1):
            found = starts()
    return found


def from_global() -> list[int]:
    return [each for _ in [0] for each in counted()]


def counted() -> list[int]:
    found = []
    for _ in range(FIRST, 8):
        found = starts()
    return found


def from_caller() -> list[int]:
    found = []
    start = 5
    for _ in range(start, 6):
        found = counted()
    return found


def from_constant() -> list[int]:
    found = []
    for _ in range(1, 2):
        found = starts()
    return found


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (from_variable, [2]),
        (from_global, [7]),
        (from_caller, [7, 5]),
        (from_constant, []),
        (Trainer().train, [3]),
    ],
    ids=["a variable", "a global", "in a caller", "a constant", "an attribute"],
)
def test_the_starts_of_loops(function: Callable[[], list[int]], expected: list[int]) -> None:
    assert function() == expected
