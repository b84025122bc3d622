"""Watches whether a generator's loss has the label with which the discriminator is trained for the same samples.

At the discriminator's pass, generated samples have no gradient; at the generator's pass, they have one. Both passes
begin with the same first layer, which has saved its input. A few elements of it show whether the samples are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_wrapper.events import GraphPattern
from proxy_wrapper.levels import INFO
from proxy_wrapper.loss_graph.scored_samples import Scored, scored_samples
from proxy_wrapper.values.statistics import unobserved

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from proxy_wrapper.tracer import Tracer

OWN_LABEL: Final = "label-of-generated"

_MOST_PLACES: Final = 20
_MOST_PASSES: Final = 32
_FEWEST: Final = 16


class GeneratedLabels:
    """Creates `GraphPattern` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._passes: dict[int, int] = {}
        # The samples of the last passes at each place: those without a gradient, and those with one.
        self._given: dict[int, list[Scored]] = {}
        self._generated: dict[int, list[Scored]] = {}
        # How often the labels of generated samples were equal at a place; -1 if they once were not.
        self._equal: dict[int, int] = {}

    def look(self, roots: Sequence[torch.Tensor], location: int) -> None:
        """Examine a backward pass, right before it begins."""
        passes = self._passes.get(location, 0)
        if len(roots) != 1 or passes >= _MOST_PASSES or (not passes and len(self._passes) >= _MOST_PLACES):
            return
        self._passes[location] = passes + 1
        with unobserved() as readable:
            found = list(scored_samples(roots[0].grad_fn, self._tracer.registry.state_entry)) if readable else []
        self._given[location] = [scored for scored, has_gradient in found if not has_gradient]
        self._generated[location] = [scored for scored, has_gradient in found if has_gradient]
        if not found:
            self._passes[location] = _MOST_PASSES  # The losses at a place are of one kind.
        for place, generated in self._generated.items():
            for at, given in self._given.items():
                if location in (place, at):
                    self._compare(generated, given, place)

    def _compare(self, generated: Sequence[Scored], given: Sequence[Scored], place: int) -> None:
        for one in generated:
            for other in given:
                if one[:2] == other[:2] and self._equal.get(place, 0) >= 0:
                    self._equal[place] = self._equal.get(place, 0) + 1 if one.label == other.label else -1
                    if self._equal[place] == _FEWEST:
                        self._emit(one, place)

    def _emit(self, scored: Scored, location: int) -> None:
        tracer, thread = self._tracer, self._tracer.thread
        event = GraphPattern(
            *(tracer.now_us(), tracer.step, 0, location, thread.number, thread.stage, OWN_LABEL),
            weights=(scored.weight,),
            values=(scored.label,),
        )
        tracer.broadcast(event, location, level=INFO)
