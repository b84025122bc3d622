"""Detects optimizers whose loaded state brings back a decayed learning rate.

optimizer = Adam(model.parameters(), lr=1e-3)
optimizer.load_state_dict(checkpoint["optimizer"])          # with the last rate of the earlier training, 1e-7
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.events import LoadedRate
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.assigned_lines import key_assigned_in
from proxy_wrapper.program_code.called_functions import body_at, reachable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_wrapper.tracer import Tracer

_FACTOR: Final = 100
"""How much smaller the loaded rate must be: the rate of a schedule that has nearly ended."""
_OF_STEPS: Final = ("momentum_buffer", "exp_avg", "square_avg", "prev")
"""What PyTorch's optimizers keep from their first step on; `Adagrad` has its state from the beginning."""


def look_at_loaded_rate(
    tracer: Tracer, optimizer: torch.optim.Optimizer, number: int, made: int, given: Sequence[float], location: int
) -> None:
    """Record the rate with which an optimizer without a scheduler begins its first step, if it was loaded.

    Args:
        tracer: the tracer.
        optimizer: the optimizer.
        number: its number in the trace.
        made: the location where it was created.
        given: the learning rates with which its groups were created; empty if unknown.
        location: where it steps.
    """
    rates = [group.get("lr") for group in optimizer.param_groups]
    now = [rate for rate in rates if type(rate) is float]
    if not given or len(now) != len(given) or max(now) * _FACTOR > max(given):
        return
    if not any(map(_has_stepped, optimizer.state.values())) or _may_assign_rates(tracer):
        return
    thread = tracer.thread
    event = LoadedRate(
        *(tracer.now_us(), tracer.step, 0, location, thread.number, thread.stage, number),
        made=made,
        given_rate=max(given),
        rate=max(now),
    )
    tracer.broadcast(event, location, level=INFO, also=(made,))


def _has_stepped(state: Any) -> bool:
    """Whether a parameter's state is that of an optimizer that has stepped. No value is read."""
    return type(state) is dict and any(type(state.get(key)) is torch.Tensor for key in _OF_STEPS)


def _may_assign_rates(tracer: Tracer) -> bool:
    """Whether a running function of the program, or one that it may call, assigns the learning rate of a group."""
    locator = tracer.locator
    frame = locator.user_frame()
    while frame is not None:
        if locator.is_user_code(frame.f_code):
            for each in reachable(body_at(frame), locator.is_user_code):
                if key_assigned_in(each.body.code, "lr") is not None:
                    return True
        frame = frame.f_back
    return False
