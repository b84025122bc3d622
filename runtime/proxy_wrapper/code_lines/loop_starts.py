"""Finds the numbers at which the loops around a running line begin to count."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.code_lines.loop_targets import loops_around
from proxy_wrapper.program_code.called_functions import Body
from proxy_wrapper.program_code.frame_variables import values_of
from proxy_wrapper.program_code.outermost_calls import value_of_name
from proxy_wrapper.program_code.syntax import iterated_by, last_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

_MOST_CALLERS: Final = 8


def loop_starts(
    frame: FrameType | None,
    syntax_of: Callable[[CodeType], ast.AST | None],
    is_followed: Callable[[CodeType], bool],
) -> Iterator[int]:
    """The first numbers of the loops `for epoch in range(start, end)` around a line, in its function and its callers.

    Only of those whose start is a variable or an attribute.
    """
    for _ in range(_MOST_CALLERS):
        if frame is None:
            return
        syntax = syntax_of(frame.f_code) if is_followed(frame.f_code) else None
        for loop in loops_around(syntax, frame.f_lineno) if syntax else ():
            counted = iterated_by(loop) if isinstance(loop, (ast.For, ast.AsyncFor)) else None
            if isinstance(counted, ast.Call) and last_name(counted.func) == "range" and len(counted.args) > 1:
                body = Body(frame.f_code, frame.f_globals, values_of(frame))
                start = value_of_name(counted.args[0], body)
                if type(start) is int:
                    yield start
        frame = frame.f_back
