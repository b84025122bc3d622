"""Finds the line that computes a value which a running function got from other functions of the program.

`loss = self.step(batch)` computes nothing; the value is computed where `step` returns it. So a line is followed into
its outermost call, or into the only function of the program that it calls, to the returned value, and on from there.
Calling a module means calling its `forward`. If there are several functions or values to choose from, the last certain
line counts.
"""

from __future__ import annotations

import dis
import inspect
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import nn

from proxy_wrapper.program_code.assigned_lines import AssignedLine, assigned_before, named_instructions, variable_used
from proxy_wrapper.program_code.called_functions import Body, body_of, called_by, return_lines
from proxy_wrapper.program_code.frame_variables import values_of
from proxy_wrapper.program_code.outermost_calls import UNKNOWN, callee_of_receiver, outermost_callee, value_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

_DEEPEST: Final = 8
_LATER: Final = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
"""Code that does not run when it is called."""
_OF_SCALER: Final = ".scale"
_REDUCTIONS: Final = (sum, torch.sum, torch.mean, torch.stack, torch.cat)
"""Functions that combine losses: only the functions in their arguments compute them."""


class ComputedLine(NamedTuple):
    """A line that computes a value, and the function that it is in, with the variables that are known there."""

    at: AssignedLine
    body: Body


def computed_at(frame: FrameType, is_followed: Callable[[CodeType], bool], model: Body | None = None) -> ComputedLine:
    """Where the variable was computed that the current line of `frame` uses; that line itself if it uses none.

    Args:
        frame: a running function.
        is_followed: whether the code of a function is the program's.
        model: the `forward` that computed it, if known.
    """
    assigned = loss_variable(frame)
    at = AssignedLine(frame.f_code, frame.f_lineno) if assigned is None else assigned
    return computed_from(at, Body(frame.f_code, frame.f_globals, values_of(frame)), is_followed, model)


def loss_variable(frame: FrameType) -> AssignedLine | None:
    """The assignment of the variable that the current line of `frame` uses; None if the line computes its own value.

    The latter holds if a method is called on the result of another call, as in `criterion(model(x), y).backward()`. The
    `scale` of a gradient scaler does not count.
    """
    callee = callee_of_receiver(frame.f_code, frame.f_lasti)
    return variable_used(frame) if not callee or callee[-1] == _OF_SCALER else None


def computed_from(
    at: AssignedLine, body: Body, is_followed: Callable[[CodeType], bool], model: Body | None = None
) -> ComputedLine:
    """Where the value that a line assigns was computed.

    Args:
        at: the line.
        body: its function.
        is_followed: whether the code of a function is the program's.
        model: the `forward` that computed the value, if known; followed if the line calls no function of the program.
    """
    for _ in range(_DEEPEST):
        callees = _callees(body, at, is_followed)
        if callees is None:
            break
        if not callees and model is not None and is_followed(model.code):
            callees, model = [model], None
        if len(callees) != 1:
            break
        (called,) = callees
        returned = None if called.code.co_flags & _LATER else _returned_by(called.code, at.name)
        if returned is None:
            break
        at, body = returned, called
    return ComputedLine(at, body)


def _callees(body: Body, at: AssignedLine, is_followed: Callable[[CodeType], bool]) -> list[Body] | None:
    """The program's functions that may return what a line assigns; None if certainly none of them does."""
    found = {id(each.body.code): each.body for each in called_by(body, at.line) if is_followed(each.body.code)}
    path = outermost_callee(body.code, at.line, at.name)
    if not path:
        return list(found.values())
    value = value_of(path, body)
    if value is UNKNOWN:
        named = [each for each in found.values() if each.code.co_name == path[-1].lstrip(".")]
        # A model's `forward` has no function of that name, and functions in the arguments do not return the value.
        return named if named or len(found) > 1 else list(found.values())
    called = called_body(value, path, body)
    if called is not None and is_followed(called.code):
        return [called]
    if any(value is each for each in _REDUCTIONS):
        return list(found.values())
    return [] if issubclass(type(value), nn.Module) else None


def called_body(value: Any, path: tuple[str, ...], body: Body) -> Body | None:
    """The code that runs when a value is called: a function, or a module's `forward`; None if it is not Python."""
    owner: Any = value_of(path[:-1], body) if len(path) > 1 else UNKNOWN
    if issubclass(type(value), nn.Module):
        owner, value = value, inspect.getattr_static(type(value), "forward", None)
    elif type(value) is MethodType:
        owner, value = value.__self__, value.__func__
    found = body_of(value)
    if found is None or owner is UNKNOWN or not found.code.co_argcount or isinstance(owner, ModuleType):
        return found
    return found._replace(values={found.code.co_varnames[0]: owner})


def _returned_by(code: CodeType, name: str) -> AssignedLine | None:
    """Where a function computes its result, or its local `name` if several are returned; None if uncertain."""
    used_on: dict[int, list[str]] = {line: [] for line in return_lines(code)}
    for each in named_instructions(code):
        if each.line in used_on and not each.is_store:
            used_on[each.line].append(each.name)
    if len(used_on) > 1:  # Other returns may return something else.
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
    """Whether a function returns a tuple or dict that it builds."""
    before = ""
    for each in dis.get_instructions(code):
        if each.opname == "RETURN_VALUE" and before in ("BUILD_TUPLE", "BUILD_MAP", "BUILD_CONST_KEY_MAP"):
            return True
        before = each.opname
    return False
