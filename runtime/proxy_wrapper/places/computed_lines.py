"""Finds the line that computes a value which a running function has got from functions of the program.

`loss = self.step(batch)` computes nothing: what `step` returns does. So a line is followed into the only function of
the program that it calls, to the value which that returns, and on from there. Where there are several functions, or
several values, the line stays the last one that is certain.
"""

from __future__ import annotations

import dis
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from typing import TYPE_CHECKING, Final

from proxy_wrapper.places.assigned_lines import AssignedLine, assigned_before, named_instructions, variable_used
from proxy_wrapper.places.called_functions import Body, called_by, return_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

_DEEPEST: Final = 8
_LATER: Final = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
"""Of code that runs later than it is called."""


def computed_at(frame: FrameType, is_followed: Callable[[CodeType], bool]) -> AssignedLine:
    """Where the variable was computed that the line which `frame` is at uses; that line itself, if it uses none.

    Args:
        frame: a running function.
        is_followed: whether the code of a function is the program's.
    """
    assigned = variable_used(frame)
    at = AssignedLine(frame.f_code, frame.f_lineno) if assigned is None else assigned
    body = Body(frame.f_code, frame.f_globals)
    for _ in range(_DEEPEST):
        callees = {id(each.body.code): each.body for each in called_by(body, at.line) if is_followed(each.body.code)}
        if len(callees) != 1:
            break
        (body,) = callees.values()
        returned = None if body.code.co_flags & _LATER else _returned_by(body.code, at.name)
        if returned is None:
            break
        at = returned
    return at


def _returned_by(code: CodeType, name: str) -> AssignedLine | None:
    """Where a function computes what it returns, or what the caller calls `name` of it; None if that is not certain."""
    lines = return_lines(code)
    if len(lines) != 1:
        return None
    (line,) = lines
    used = [each.name for each in named_instructions(code) if each.line == line and not each.is_store]
    if _returns_several(code):
        if name not in used:
            return None
        used = [name]
    if len(used) != 1:
        return AssignedLine(code, line)
    return assigned_before(code, line, used[0]) or AssignedLine(code, line)


def _returns_several(code: CodeType) -> bool:
    """Whether what a function returns is a tuple that is made there."""
    before = ""
    for each in dis.get_instructions(code):
        if each.opname == "RETURN_VALUE" and before == "BUILD_TUPLE":
            return True
        before = each.opname
    return False
