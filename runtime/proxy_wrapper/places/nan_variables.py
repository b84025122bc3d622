"""Finds the variable of a running function in which a NaN came up first.

Of the variables that went into what a line uses, the first that holds a NaN is the one whose line made it: what it was
computed from holds none.
"""

from __future__ import annotations

import sys
from inspect import CO_OPTIMIZED
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.places.assigned_lines import variables_behind
from proxy_wrapper.values.statistics import holds_nan

if TYPE_CHECKING:
    from types import FrameType

    from proxy_wrapper.places.assigned_lines import AssignedLine

_READERS: Final = frozenset({"locals", "vars", "dir", "eval", "exec"})


def first_nan(frame: FrameType) -> AssignedLine | None:
    """The first of the variables behind the line which `frame` is at that holds a NaN, and where it was assigned.

    Only tensors are looked at whose values are at hand. None if none of them has a NaN.
    """
    behind = variables_behind(frame)
    values = _values_of(frame) if behind else {}
    for each in behind:
        value = values.get(each.name, frame.f_globals.get(each.name))
        if type(value) is torch.Tensor and holds_nan(value):
            return each
    return None


def _values_of(frame: FrameType) -> dict[str, Any]:
    """The variables of a frame with their values; nothing changes for the program by the reading of them.

    Before Python 3.13 a function has one dictionary for all who ask for its variables. It would keep the values alive,
    so it is emptied; where the program itself may have asked for it, it is left alone.
    """
    if not frame.f_code.co_flags & CO_OPTIMIZED or sys.version_info >= (3, 13):
        return dict(frame.f_locals)
    if not _READERS.isdisjoint(frame.f_code.co_names):
        return {}
    shared = frame.f_locals
    values = dict(shared)
    shared.clear()
    return values
