"""Reads the variables of a running function without changing anything for the program."""

from __future__ import annotations

import sys
from inspect import CO_OPTIMIZED
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.program_code.assigned_lines import MOST_BYTES, named_instructions

if TYPE_CHECKING:
    from types import CodeType, FrameType

_READERS: Final = frozenset({"locals", "vars", "dir", "eval", "exec"})


def values_of(frame: FrameType) -> dict[str, Any]:
    """The variables of a frame with their values; reading them changes nothing for the program.

    Before Python 3.13, a frame has one dictionary for everybody who asks for its variables. It would keep the values
    alive, so it is cleared afterwards. If the program itself may use it, nothing is read.
    """
    if not frame.f_code.co_flags & CO_OPTIMIZED or sys.version_info >= (3, 13):
        return dict(frame.f_locals)
    if _may_ask(frame.f_code):
        return {}
    shared = frame.f_locals
    values = dict(shared)
    shared.clear()
    return values


def _may_ask(code: CodeType) -> bool:
    """Whether code names a function that asks for variables; `model.eval` is none, though its name is among these."""
    if _READERS.isdisjoint(code.co_names):
        return False
    return len(code.co_code) > MOST_BYTES or any(each.name in _READERS for each in named_instructions(code))
