"""Finds the variable of a running function in which a NaN first appeared.

Among the variables behind a line, the first that holds a NaN was computed from variables without one, so its own line
produced it. A variable that a loop assigns again, as `h = cell(h, x)` does, got its value there, not before the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import torch

from proxy_wrapper.program_code.assigned_lines import AssignedLine, loops_of, named_instructions, variables_behind
from proxy_wrapper.program_code.called_functions import body_at, called_by, return_lines
from proxy_wrapper.program_code.frame_variables import values_of
from proxy_wrapper.values.statistics import holds_nan

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType


_MOST_CALLERS: Final = 8


class OriginOfNan(NamedTuple):
    """A variable that holds a NaN: the function in which it is, and its assignment."""

    frame: FrameType
    assigned: AssignedLine


def first_nan(frame: FrameType) -> AssignedLine | None:
    """The first variable behind the current line of `frame` that holds a NaN, with its assignment; else None.

    Only tensors with readable values are examined.
    """
    behind = variables_behind(frame)
    values = values_of(frame) if behind else {}
    for each in behind:
        value = values.get(each.name, frame.f_globals.get(each.name))
        if type(value) is torch.Tensor and holds_nan(value):
            return _again_in_loop(each, behind)
    return None


def origin_of_nan(frame: FrameType, is_followed: Callable[[CodeType], bool]) -> OriginOfNan | None:
    """The first variable behind the current line of `frame` that holds a NaN, or else None.

    If its line reads an argument that holds a NaN already, the variables of the caller are searched. If none of them
    holds one, the caller has computed the argument in the call: on its line, or in the only other function called
    there.

    Args:
        frame: a running function.
        is_followed: whether the code of a caller is the program's.
    """
    found = first_nan(frame)
    origin = None if found is None else OriginOfNan(frame, found)
    for _ in range(_MOST_CALLERS):
        caller = frame.f_back
        line = frame.f_lineno if found is None else found.line
        argument = "" if caller is None or not is_followed(caller.f_code) else _nan_argument(frame, line)
        if caller is None or not argument:
            break
        called, frame, found = frame.f_code, caller, first_nan(caller)
        passed = found or AssignedLine(frame.f_code, frame.f_lineno, argument)
        origin = OriginOfNan(frame, passed if found else _computed_in_call(passed, frame, called, is_followed))
    return origin


def _computed_in_call(
    passed: AssignedLine, frame: FrameType, called: CodeType, is_followed: Callable[[CodeType], bool]
) -> AssignedLine:
    """The line of the only other function called at a line that returns something; the line itself if not exactly one.

    Args:
        passed: the line.
        frame: its function.
        called: the function that is called with the result.
        is_followed: whether the code of a function is the program's.
    """
    others = {each.body.code for each in called_by(body_at(frame), passed.line)} - {called}
    lines = [
        AssignedLine(code, line, passed.name) for code in others if is_followed(code) for line in return_lines(code)
    ]
    return lines[0] if len(lines) == 1 else passed


def _nan_argument(frame: FrameType, line: int) -> str:
    """An argument that a line reads, that holds a NaN, and that the function does not assign itself; "" if none."""
    code = frame.f_code
    arguments = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    read = {each.name for each in named_instructions(code) if each.line == line and not each.is_store}
    assigned = {each.name for each in named_instructions(code) if each.is_store}
    names = arguments & read - assigned
    values = values_of(frame) if names else {}
    given = ((name, values.get(name)) for name in sorted(names))
    return next((name for name, value in given if type(value) is torch.Tensor and holds_nan(value)), "")


def _again_in_loop(first: AssignedLine, behind: list[AssignedLine]) -> AssignedLine:
    """The last assignment of the same variable if it is in a loop that begins after the first one; else the first."""
    last = next(each for each in reversed(behind) if each.name == first.name)
    loops = loops_of(first.code) if last.line > first.line else ()
    return last if any(first.line < loop.start <= last.line < loop.stop for loop in loops) else first
