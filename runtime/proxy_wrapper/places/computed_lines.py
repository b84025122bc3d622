"""Finds the line that computes a value which a running function has got from functions of the program.

`loss = self.step(batch)` computes nothing: what `step` returns does. So a line is followed into the only function of
the program that it calls, to the value which that returns, and on from there. Where there are several functions, or
several values, the line stays the last one that is certain.
"""

from __future__ import annotations

import dis
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.places.assigned_lines import AssignedLine, assigned_before, named_instructions, variable_used
from proxy_wrapper.places.called_functions import Body, called_by, return_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

_DEEPEST: Final = 8
_LATER: Final = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
"""Of code that runs later than it is called."""


def computed_at(frame: FrameType, is_followed: Callable[[CodeType], bool], model: Body | None = None) -> AssignedLine:
    """Where the variable was computed that the line which `frame` is at uses; that line itself, if it uses none.

    Args:
        frame: a running function.
        is_followed: whether the code of a function is the program's.
        model: the `forward` that computed it, if that is known.
    """
    assigned = variable_used(frame)
    at = AssignedLine(frame.f_code, frame.f_lineno) if assigned is None else assigned
    return computed_from(at, frame.f_globals, is_followed, model)


def computed_from(
    at: AssignedLine, names: dict[str, Any], is_followed: Callable[[CodeType], bool], model: Body | None = None
) -> AssignedLine:
    """Where the value was computed that a line assigns.

    Args:
        at: the line.
        names: the globals of its function.
        is_followed: whether the code of a function is the program's.
        model: the `forward` that computed the value, if that is known: it is followed where the line calls no function.
    """
    body = Body(at.code, names)
    for _ in range(_DEEPEST):
        callees = {id(each.body.code): each.body for each in called_by(body, at.line) if is_followed(each.body.code)}
        if not callees and model is not None and is_followed(model.code):
            callees, model = {id(model.code): model}, None
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
    used_on: dict[int, list[str]] = {line: [] for line in return_lines(code)}
    for each in named_instructions(code):
        if each.line in used_on and not each.is_store:
            used_on[each.line].append(each.name)
    if len(used_on) > 1:  # One of which may return it, and others something else.
        used_on = {line: used for line, used in used_on.items() if name in used}
    if len(used_on) != 1:
        return None
    ((line, used),) = used_on.items()
    if _returns_several(code):
        if name not in used:
            return None
        used = [name]
    if len(used) != 1:
        return AssignedLine(code, line)
    return assigned_before(code, line, used[0]) or AssignedLine(code, line)


def _returns_several(code: CodeType) -> bool:
    """Whether what a function returns is a tuple or a dictionary that is made there."""
    before = ""
    for each in dis.get_instructions(code):
        if each.opname == "RETURN_VALUE" and before in ("BUILD_TUPLE", "BUILD_MAP", "BUILD_CONST_KEY_MAP"):
            return True
        before = each.opname
    return False
