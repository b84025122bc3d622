"""The state of torch's switches around a call: gradients, inference mode, autocast.

It is recorded with each call. If the switches themselves were replayed as calls, they would stay on when a graph stops
half way. A reentrant checkpoint, which turns gradients off around its function, would leave them off.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import torch

_may_autocast: Final = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)
_is_grad_on: Final = torch.is_grad_enabled
_is_inference_on: Final = torch.is_inference_mode_enabled


class Autocast(NamedTuple):
    """Autocast is on for this type of device, with this dtype."""

    device: str
    dtype: torch.dtype


class CallState(NamedTuple):
    """The state of the switches around a call."""

    grad: bool
    inference: bool
    autocast: tuple[Autocast, ...]

    def words(self, outer: CallState) -> str:
        """The difference from `outer`, as part of a name."""
        words = []
        if self.inference != outer.inference:
            words.append("in_inference_mode" if self.inference else "out_of_inference_mode")
        elif self.grad != outer.grad:
            words.append("with_grad" if self.grad else "without_grad")
        if self.autocast != outer.autocast:
            words.append("autocast" if self.autocast else "without_autocast")
        return "_".join(words)


def now(last: CallState) -> CallState:
    """The current state of this thread; `last` itself if nothing changed."""
    grad, inference, outside = last
    if _is_grad_on() is grad and _is_inference_on() is inference and not outside and not _may_autocast():
        return last  # The common case, and this runs for each call.
    found = CallState(_is_grad_on(), _is_inference_on(), _autocast_now())
    return last if found == last else found


def _autocast_now() -> tuple[Autocast, ...]:
    if not _may_autocast():
        return ()
    return tuple(
        Autocast(device, torch.get_autocast_dtype(device)) for device in _devices() if torch.is_autocast_enabled(device)
    )


def _devices() -> tuple[str, ...]:
    """The types of device for which autocast may be on."""
    accelerator = torch.accelerator.current_accelerator()
    return ("cpu",) if accelerator is None else ("cpu", accelerator.type)
