"""Detects optimizers whose state shares memory with a gradient, instead of holding a copy.

The next backward pass, or `zero_grad(set_to_none=False)`, then changes the state. If gradients are set to None, each
new gradient has its own memory, and nothing is shared when the next step begins.
"""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.events import StatePattern
from proxy_wrapper.intercept.state.state_records import gradient_of
from proxy_wrapper.known.optimizer_state import tensors_kept
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.assigned_lines import AssignedLine, kept_under
from proxy_wrapper.values.torch_functions import numel
from proxy_wrapper.values.value_marks import data_ptr_of

if TYPE_CHECKING:
    from proxy_wrapper.known.state_tensors import StateTensors
    from proxy_wrapper.tracer import Tracer

_FIRST: Final = 4
_OWN: Final = f"{torch.optim.__name__}."
_KEYS: Final = re.compile(r"prev|last|old|mom|buf|avg|ema|veloc|mean", re.IGNORECASE)
"""Names of state that should keep its values until the next step."""


class KeptGradients:
    """Creates `StatePattern` events of optimizers that are not part of PyTorch."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._steps: weakref.WeakKeyDictionary[torch.optim.Optimizer, int] = weakref.WeakKeyDictionary()

    def look(self, optimizer: torch.optim.Optimizer, states: StateTensors, location: int) -> None:
        """Examine the state that an optimizer kept from its last step, before one of its first steps begins."""
        if type(optimizer).__module__.startswith(_OWN):
            return
        steps = self._steps.get(optimizer, 0)
        if steps >= _FIRST:
            return
        self._steps[optimizer] = steps + 1
        for state, parameter in states:
            gradient = gradient_of(parameter)
            address = 0 if gradient is None else data_ptr_of(gradient)
            for key, kept in tensors_kept(optimizer, parameter) if address else ():
                if type(key) is str and _KEYS.search(key) and data_ptr_of(kept) == address and numel(kept) > 1:
                    self._steps[optimizer] = _FIRST
                    self._emit(state.id, key, optimizer, location)
                    return

    def _emit(self, tensor: int, key: str, optimizer: torch.optim.Optimizer, location: int) -> None:
        tracer = self._tracer
        made = tracer.locator.line(_line_of(type(optimizer), key))
        thread = tracer.thread
        event = StatePattern(
            tracer.now_us(),
            tracer.step,
            0,
            location,
            thread.number,
            thread.stage,
            "state-is-gradient",
            tensor,
            name=key,
            made=made,
        )
        tracer.broadcast(event, location, level=INFO, also=(made,) if made else ())


def _line_of(optimizer: type[torch.optim.Optimizer], key: str) -> AssignedLine | None:
    """The line in the `step` of a class that stores a value under a key; None if it is not known."""
    function: Any = optimizer.__dict__.get("step")
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    return None if code is None else kept_under(code, key)
