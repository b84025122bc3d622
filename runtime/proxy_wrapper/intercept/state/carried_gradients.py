"""Detects gradients that are cleared too late or too early.

Too late: nobody clears the gradients that a step has used, so the next ones are added to them. Too early: the
gradients of a backward pass are cleared before another pass at the same place without a step in between, so that no
step uses them.

One parameter of each optimizer is watched: the smallest one whose gradient is not zero. If that gradient was neither
missing nor zero at the start of any backward pass since the last step, the passes have added to it.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final

from proxy_wrapper.events import Statistics
from proxy_wrapper.intercept.state.state_records import gradient_of
from proxy_wrapper.values.pending import PendingConjunction, PendingStatistics, is_nothing
from proxy_wrapper.values.statistics import has_values, is_nonzero, unobserved
from proxy_wrapper.values.torch_functions import numel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from proxy_wrapper.events import Gradient
    from proxy_wrapper.known.entries import StateEntry
    from proxy_wrapper.tracer import Tracer
    from proxy_wrapper.values.pending import PendingCount

_SMALL: Final = 1 << 12
"""The search for a smaller parameter stops at this number of elements."""
_MOST_PASSES: Final = 256
"""The most backward passes before one step for which an accelerator is asked. With more, the result is unknown."""


class _Watched:
    """The watched parameter of an optimizer.

    Attributes:
        state: the parameter.
        gradient: the `id` of its gradient at the start of the last backward pass.
        passes: how many backward passes have begun since the last step.
        is_cleared: whether one of them found the gradient missing or zero, or this is unknown.
        answers: results that an accelerator still owes: for each pass, whether the gradient was nonzero.
        place: the location of all passes; 0 before the first, -1 if there are several.
        dropped: how many passes found the gradient of an earlier pass missing or zero.
    """

    __slots__ = ("answers", "dropped", "gradient", "is_cleared", "passes", "place", "state")

    def __init__(self, state: StateEntry) -> None:
        self.state = state
        self.gradient = 0
        self.passes = 0
        self.is_cleared = False
        self.answers: list[PendingCount] = []
        self.place = self.dropped = 0


class CarriedGradients:
    """Tells for each step whether gradients were left over: of the last step, or of a discarded backward pass."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._watched: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Watched] = weakref.WeakKeyDictionary()

    def before_backward(self, location: int) -> None:
        """Look at the watched gradients before a backward pass that leaves gradients."""
        tracer = self._tracer
        for watched in list(self._watched.values()):
            if tracer.is_used_elsewhere(watched.state.holder, tracer.thread):
                continue
            self._look(watched, is_first=not watched.place)
            watched.place = location if watched.place in (0, location) else -1

    def _look(self, watched: _Watched, *, is_first: bool) -> None:
        """Look at one gradient before a backward pass. `is_first`: the first pass since a step."""
        tensor = watched.state.tensor()
        gradient = None if tensor is None else gradient_of(tensor)
        if watched.is_cleared and (is_first or watched.place < 0):
            return
        answer = gradient is not None and len(watched.answers) < _MOST_PASSES and _is_nonzero(gradient)
        watched.dropped += answer is False and not is_first
        watched.passes += 1
        if answer is False:
            watched.is_cleared = True
        if watched.is_cleared:
            return
        watched.gradient = id(gradient)
        if answer is not False and answer is not True:
            watched.answers.append(answer)

    def has_gradient(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the watched gradient of an optimizer is neither missing nor zero; False if that would be waited for.

        False, too, if another thread may be replacing it.
        """
        watched = self._watched.get(optimizer)
        if watched is None or self._tracer.is_used_elsewhere(watched.state.holder, self._tracer.thread):
            return False
        tensor = watched.state.tensor()
        gradient = None if tensor is None else gradient_of(tensor)
        return gradient is not None and _is_nonzero(gradient) is True

    def dropped_passes(self, optimizer: torch.optim.Optimizer) -> int:
        """How many backward passes before this step of `optimizer` left gradients that were cleared before it.

        0 if the passes were made at several places: some may be for another optimizer.
        """
        watched = self._watched.get(optimizer)
        return 0 if watched is None or watched.place < 0 else watched.dropped

    def place_of_passes(self, optimizer: torch.optim.Optimizer) -> int:
        """The location of all backward passes since the last step of `optimizer`; 0 if there are several or none."""
        watched = self._watched.get(optimizer)
        return 0 if watched is None else max(watched.place, 0)

    def accumulated_passes(self, gradients: frozenset[int]) -> int:
        """How many backward passes, all at one place, have added to these gradients since the last step that used them.

        Args:
            gradients: by `id`, of one optimizer; the result is about the watched one among them.
        """
        tracer = self._tracer
        for watched in list(self._watched.values()):
            if tracer.is_used_elsewhere(watched.state.holder, tracer.thread):
                continue  # Its thread may be replacing the gradient, and autograd does so without Python's lock.
            tensor = watched.state.tensor()
            gradient = None if tensor is None else gradient_of(tensor)
            if gradient is not None and id(gradient) in gradients:
                return 0 if watched.place <= 0 or watched.dropped else watched.passes
        return 0

    def are_carried(self, optimizer: torch.optim.Optimizer) -> bool | PendingConjunction:
        """Whether the gradients at this step of `optimizer` were added to those of its last step."""
        watched = self._watched.get(optimizer)
        if watched is None or watched.is_cleared or not watched.passes:
            return False
        tensor = watched.state.tensor()
        gradient = None if tensor is None else gradient_of(tensor)
        if gradient is None or id(gradient) != watched.gradient:
            return False
        return PendingConjunction(watched.answers) if watched.answers else True

    def after_step(self, optimizer: torch.optim.Optimizer, gradients: Sequence[Gradient]) -> None:
        """Choose the parameter to watch until the next step, by the gradients of this one."""
        self._watched.pop(optimizer, None)
        find = self._tracer.registry.state.get
        chosen: StateEntry | None = None
        fewest = 0
        for each in gradients:
            known = each.statistics
            if isinstance(known, PendingStatistics) or (type(known) is Statistics and not is_nothing(known)):
                state = find(each.tensor)
                tensor = None if state is None else state.tensor()
                if state is None or tensor is None:
                    continue
                count = numel(tensor)
                if chosen is None or count < fewest:
                    chosen, fewest = state, count
                if fewest <= _SMALL:
                    break
        if chosen is not None:
            self._watched[optimizer] = _Watched(chosen)


def _is_nonzero(gradient: torch.Tensor) -> bool | PendingCount:
    """Whether a gradient has a nonzero element; False if it cannot be read, as for a sparse one."""
    if not has_values(gradient):
        return False
    with unobserved() as readable:
        return readable and is_nonzero(gradient)
