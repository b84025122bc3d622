"""The innermost loop around a line is found, also if a caller has it."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from proxy_wrapper.code_lines.loop_targets import loop_target

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType


def syntax_of(code: CodeType) -> Any:
    tree = ast.parse(textwrap.dedent(inspect.getsource(sys.modules[__name__])))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return next((node for node in functions if node.lineno == code.co_firstlineno), None)


def target() -> str:
    return loop_target(sys._getframe(1), syntax_of, lambda code: code.co_filename == __file__)


def in_loop() -> str:
    found = ""
    for epoch in range(1):
        found = target() + str(epoch)[:0]
    return found


def in_loop_within() -> str:
    found = ""
    for _epoch in range(1):
        for task, _ in enumerate("a"):
            found = target() + str(task)[:0]
    return found


def called_in_loop() -> str:
    for step in range(1):
        del step
        found = target_of_caller()
    return found


def target_of_caller() -> str:
    return target()


def behind_loop() -> str:
    for epoch in range(1):
        del epoch
    while True:
        return target()


@pytest.mark.parametrize(
    ("function", "expected"),
    [(in_loop, "epoch"), (in_loop_within, "(task, _)"), (called_in_loop, "step"), (behind_loop, "")],
)
def test_the_target_of_the_loop(function: Callable[[], str], expected: str) -> None:
    assert function() == expected
