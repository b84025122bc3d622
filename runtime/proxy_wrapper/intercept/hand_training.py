"""Gradients in programs that train without an optimizer of PyTorch's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_wrapper.intercept.state_records import gradient_of
from proxy_wrapper.state_tensors import StateTensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_wrapper.events import Gradient
    from proxy_wrapper.intercept.state_records import StateRecords
    from proxy_wrapper.registry import StateEntry
    from proxy_wrapper.tracer import Tracer


class HandTraining:
    """Records the gradients that a backward pass leaves, if no optimizer will take them.

    Whether one will is not known at the first backward pass, so its gradients are kept as numbers until a step of an
    optimizer, or parameters that changed without one, tell.
    """

    def __init__(self, tracer: Tracer, records: StateRecords) -> None:
        self._tracer = tracer
        self._records = records
        self._has_optimizer = False
        self.is_by_hand = False
        self._had_backward = False
        self._is_step_due = False
        self._kept: list[Gradient] = []

    @property
    def has_trained(self) -> bool:
        """Whether the program may have trained since its last step: with an optimizer that is not known."""
        return self._has_optimizer or self._is_step_due

    def note_optimizer(self) -> None:
        """An optimizer steps, and records the gradients that it finds."""
        self._has_optimizer = True
        self.is_by_hand = False
        self._kept.clear()

    def after_backward(self, location: int) -> None:
        """A backward pass has ended that was called from `location`."""
        if self._has_optimizer:
            return
        if self.is_by_hand:
            self._records.send_gradients(self._gradients(location))
        elif not self._had_backward:
            self._kept = self._gradients(location)
        self._had_backward = self._is_step_due = True

    def ends_step(self, changed: Sequence[StateEntry]) -> bool:
        """Whether the program has made a step by hand since it called a module last.

        Args:
            changed: the parameters found to have changed since; of modules that the present iteration is not
                recorded for, none is looked at, and the backward pass alone tells.
        """
        if self._has_optimizer or not self._is_step_due:
            return False
        has_changed = any(_is_trained(state) for state in changed)
        if has_changed and not self.is_by_hand:
            self.is_by_hand = True
            self._records.send_gradients(self._kept)
            self._kept.clear()
        is_paused = self.is_by_hand and all(entry.is_paused for entry in self._tracer.registry)
        self._is_step_due = not (has_changed or is_paused)
        return has_changed or is_paused

    def _gradients(self, location: int) -> list[Gradient]:
        states = StateTensors()
        for state in list(self._tracer.registry.state.values()):
            tensor = None if state.is_buffer else state.tensor()
            if tensor is not None and gradient_of(tensor) is not None and not state.holder.is_paused:
                states.add(state, tensor)
        return self._records.gradients(states, location)


def _is_trained(state: StateEntry) -> bool:
    tensor = state.tensor()
    return tensor is not None and tensor.requires_grad
