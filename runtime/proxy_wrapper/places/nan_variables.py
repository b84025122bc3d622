"""Finds the variable of a running function in which a NaN first appeared.

Among the variables behind a line, the first that holds a NaN was computed from variables without one, so its own line
produced it.
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
    """The first variable behind the current line of `frame` that holds a NaN, with its assignment; else None.

    Only tensors with readable values are examined.
    """
    behind = variables_behind(frame)
    values = values_of(frame) if behind else {}
    for each in behind:
        value = values.get(each.name, frame.f_globals.get(each.name))
        if type(value) is torch.Tensor and holds_nan(value):
            return each
    return None
