"""Finds the loop in which a line of the program runs."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import nodes_within

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

_MOST_CALLERS: Final = 8


def loop_target(
    frame: FrameType | None,
    syntax_of: Callable[[CodeType], ast.AST | None],
    is_followed: Callable[[CodeType], bool],
) -> str:
    """The target of the innermost loop around the current line of `frame`, or else of its caller's, as it is written.

    "" if it is a `while` loop, or if there is none.
    """
    for _ in range(_MOST_CALLERS):
        if frame is None:
            break
        syntax = syntax_of(frame.f_code) if is_followed(frame.f_code) else None
        loops = loops_around(syntax, frame.f_lineno) if syntax else []
        if loops:
            return ast.unparse(loops[-1].target) if isinstance(loops[-1], (ast.For, ast.AsyncFor)) else ""
        frame = frame.f_back
    return ""


def loops_around(syntax: ast.AST, line: int) -> list[ast.AST]:
    """The loops of a function with a line in their body, from the outermost to the innermost."""
    return [node for node in nodes_within(syntax) if _is_around(node, line)]


def _is_around(node: ast.AST, line: int) -> bool:
    """Whether a node is a loop with a line in its body."""
    if not isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
        return False
    return node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
