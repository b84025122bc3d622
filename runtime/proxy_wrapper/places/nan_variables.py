"""Finds the variable of a running function in which a NaN came up first.

Of the variables that went into what a line uses, the first that holds a NaN is the one whose line made it: what it was
computed from holds none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from proxy_wrapper.places.assigned_lines import variables_behind
from proxy_wrapper.places.frame_variables import values_of
from proxy_wrapper.values.statistics import holds_nan

if TYPE_CHECKING:
    from types import FrameType

    from proxy_wrapper.places.assigned_lines import AssignedLine


def first_nan(frame: FrameType) -> AssignedLine | None:
    """The first of the variables behind the line which `frame` is at that holds a NaN, and where it was assigned.

    Only tensors are looked at whose values are at hand. None if none of them has a NaN.
    """
    behind = variables_behind(frame)
    values = values_of(frame) if behind else {}
    for each in behind:
        value = values.get(each.name, frame.f_globals.get(each.name))
        if type(value) is torch.Tensor and holds_nan(value):
            return each
    return None
