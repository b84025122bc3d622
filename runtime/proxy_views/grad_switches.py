"""Determines whether gradients are on in the function of a reentrant checkpoint when it is recomputed.

The function first runs with gradients off, and is recomputed with gradients on in the backward pass. In the first run,
torch's state therefore does not show whether the function itself turned gradients off. Each switch is tracked instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils.checkpoint import CheckpointFunction

if TYPE_CHECKING:
    from types import CodeType, FrameType

_CHECKPOINT: Final = CheckpointFunction.forward.__code__
_BEGIN: Final = torch.set_grad_enabled.__init__.__code__
_LOOKED_THROUGH: Final = 8  # There are frames of observers in between.


class GradSwitches:
    """Tracks the gradient switches on one thread.

    Attributes:
        is_on: whether gradients would be on without the checkpoint's own switch.
    """

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on
        self._before: dict[int, tuple[Any, bool]] = {}  # By the id of a context, which is kept alive.

    def switch(self, frame: FrameType | None, *, is_on: bool) -> None:
        """Track a call of `torch._C._set_grad_enabled(is_on)`, made in `frame` or a few frames above it."""
        frame, act = _act(frame)
        if frame is None:
            self.is_on = is_on
            return
        context = frame.f_locals["self"]
        if act == "exit":
            self.is_on = self._before.pop(id(context), (None, is_on))[1]
            return
        self._before.setdefault(id(context), (context, self.is_on))
        if frame.f_back is None or frame.f_back.f_code is not _CHECKPOINT:
            self.is_on = is_on


def _acts() -> dict[CodeType, str]:
    found = {_BEGIN: "enter"}
    for kind in (torch.no_grad, torch.enable_grad, torch.set_grad_enabled):
        found[kind.__enter__.__code__] = "enter"
        found[kind.__exit__.__code__] = "exit"
    found[torch.set_grad_enabled.__call__.__code__] = "exit"  # Creating a decorator switches nothing yet.
    return found


_ACTS: Final = _acts()


def _act(frame: FrameType | None) -> tuple[FrameType | None, str]:
    """The frame of the context manager that switches, and "enter" or "exit"; None and "" for a plain call."""
    for _ in range(_LOOKED_THROUGH):
        if frame is None:
            break
        act = _ACTS.get(frame.f_code)
        if act is not None:
            around = frame.f_back
            if frame.f_code is _BEGIN and around is not None and around.f_code in _ACTS:
                return around, _ACTS[around.f_code]  # `no_grad` creates a `set_grad_enabled` to switch.
            return frame, act
        frame = frame.f_back
    return None, ""
