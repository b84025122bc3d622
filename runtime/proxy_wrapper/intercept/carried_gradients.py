"""Sees gradients that are cleared too late, or too early.

If nobody has cleared those that a step has taken, the next ones are added to them. If those of a backward pass are
cleared before another one at the same place, and no step comes between, no step ever takes them.

Of each optimizer one parameter is looked at, the smallest with a gradient that is not zero. If that gradient was
neither missing nor zero when any of the backward passes since began, they have added to what the last step took.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final

from proxy_wrapper.events import Statistics
from proxy_wrapper.intercept.state_records import gradient_of
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
"""A gradient of so many elements is small enough: no smaller one is looked for."""
_MOST_PASSES: Final = 256
"""Of so many backward passes before one step an accelerator is asked. Where there are more, it cannot be told."""


class _Watched:
    """The parameter of an optimizer that is looked at.

    Attributes:
        state: the parameter.
        gradient: the `id` of its gradient as the last backward pass found it.
        passes: how many backward passes have begun since the last step.
        is_cleared: whether one of them found the gradient missing or zero, or it cannot be told.
        answers: what an accelerator has yet to tell: for each pass whether the gradient was other than zero.
        place: the location of all passes; 0 before the first, -1 if they have several.
        dropped: before how many passes the gradient was missing, or zero, though there had been one before.
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
    """Tells of each step whether gradients were there before its backward passes: of the last step, or of a pass."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._watched: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Watched] = weakref.WeakKeyDictionary()

    def before_backward(self, location: int) -> None:
        """A backward pass begins at a location that leaves gradients."""
        tracer = self._tracer
        for watched in list(self._watched.values()):
            if tracer.is_used_elsewhere(watched.state.holder, tracer.thread):
                continue
            self._look(watched, is_first=not watched.place)
            watched.place = location if watched.place in (0, location) else -1

    def _look(self, watched: _Watched, *, is_first: bool) -> None:
        """Look at the gradient of a parameter right before a backward pass, the first one since a step or another."""
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

    def dropped_passes(self, optimizer: torch.optim.Optimizer) -> int:
        """How many backward passes for the step that `optimizer` begins left gradients that were cleared before it.

        0 where they were not all made at one place: others may be for another optimizer.
        """
        watched = self._watched.get(optimizer)
        return 0 if watched is None or watched.place < 0 else watched.dropped

    def accumulated_passes(self, gradients: frozenset[int]) -> int:
        """How many backward passes, all at one place, have added to some gradients since the last step with them.

        Args:
            gradients: by their `id`; those of one optimizer, of which the one that is looked at is told.
        """
        for watched in self._watched.values():
            tensor = watched.state.tensor()
            gradient = None if tensor is None else gradient_of(tensor)
            if gradient is not None and id(gradient) in gradients:
                return 0 if watched.place <= 0 or watched.dropped else watched.passes
        return 0

    def are_carried(self, optimizer: torch.optim.Optimizer) -> bool | PendingConjunction:
        """Whether the step that `optimizer` begins finds gradients that were added to those of its last step."""
        watched = self._watched.get(optimizer)
        if watched is None or watched.is_cleared or not watched.passes:
            return False
        tensor = watched.state.tensor()
        gradient = None if tensor is None else gradient_of(tensor)
        if gradient is None or id(gradient) != watched.gradient:
            return False
        return PendingConjunction(watched.answers) if watched.answers else True

    def after_step(self, optimizer: torch.optim.Optimizer, gradients: Sequence[Gradient]) -> None:
        """Choose what to look at until the next step, by the gradients that this one found."""
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
    """Whether a gradient has an element other than zero; False where nobody can tell, as of a sparse one."""
    if not has_values(gradient):
        return False
    with unobserved() as readable:
        return readable and is_nonzero(gradient)
