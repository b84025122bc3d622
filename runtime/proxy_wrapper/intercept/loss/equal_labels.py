"""Watches whether all that a layer puts out is compared with the same label, at each backward pass at a place.

This is right for a generator, whose loss goes through the discriminator, and wrong for the discriminator. Which of them
steps after the passes is in the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.events import GraphPattern
from proxy_wrapper.levels import INFO
from proxy_wrapper.loss_graph.nodes import (
    BINARY_LOSSES,
    LAYERS,
    LEAF,
    SQUEEZED,
    TRANSPOSED,
    VIEWS,
    node_before,
    node_behind,
)
from proxy_wrapper.loss_graph.saved_tensors import saved_tensor
from proxy_wrapper.values.statistics import unobserved
from proxy_wrapper.values.torch_functions import aminmax, item, numel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from proxy_wrapper.tracer import Tracer

ONE_LABEL: Final = "one-label"
SEVERAL_LABELS: Final = "several-labels"

_MOST_PLACES: Final = 100
_MOST_NODES: Final = 256
_FEWEST_PASSES: Final = 16
_ALL: Final = 64
"""All passes at a place are read up to this number; later ones only if their number is a power of two."""
_SCORES: Final = VIEWS | SQUEEZED | {"SigmoidBackward0", "ToCopyBackward0"}
_OF_WEIGHT: Final = TRANSPOSED | {"ToCopyBackward0"}


class _Compared(NamedTuple):
    """What all outputs of a layer are compared with in a backward pass, the layer's weight, and how many there are."""

    label: float
    weight: torch.Tensor
    outputs: int


class _Place:
    """A place where backward passes begin: their number, and the label and the weight of all of them."""

    __slots__ = ("label", "outputs", "passes", "weight")

    def __init__(self, label: float, weight: int, outputs: int) -> None:
        self.label, self.weight, self.outputs = label, weight, outputs
        self.passes = 1


class EqualLabels:
    """Creates `GraphPattern` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        # None where labels were not all the same.
        self._places: dict[int, _Place | None] = {}

    def look(self, roots: Sequence[torch.Tensor], location: int) -> None:
        """Examine the labels of a backward pass, right before it begins."""
        known = self._places.get(location)
        if known is None:
            if location in self._places or len(self._places) >= _MOST_PLACES:
                return
            found = self._of_pass(roots)
            self._places[location] = None if found is None else _Place(*found)
            return
        known.passes += 1
        if known.passes > _ALL and known.passes & (known.passes - 1):
            return
        if self._of_pass(roots) != (known.label, known.weight, known.outputs):
            self._places[location] = None
            if known.passes > _FEWEST_PASSES:
                self._emit(SEVERAL_LABELS, known, location)
        elif known.passes == _FEWEST_PASSES:
            self._emit(ONE_LABEL, known, location)

    def _of_pass(self, roots: Sequence[torch.Tensor]) -> tuple[float, int, int] | None:
        """The label of a pass, the id of the weight of the layer, and its number of outputs."""
        with unobserved() as readable:
            found = _compared(roots[0].grad_fn) if readable and len(roots) == 1 else None
        if found is None:
            return None
        state = self._tracer.registry.state_entry(found.weight)
        return None if state is None else (found.label, state.id, found.outputs)

    def _emit(self, what: str, place: _Place, location: int) -> None:
        tracer, thread = self._tracer, self._tracer.thread
        event = GraphPattern(
            *(tracer.now_us(), tracer.step, 0, location, thread.number, thread.stage, what),
            weights=(place.weight,),
            values=(place.label, float(place.outputs)),
        )
        tracer.broadcast(event, location, level=INFO)


def _compared(root: Any) -> _Compared | None:
    """What the binary cross entropies in the graph of a loss compare; None unless it is one layer with one label."""
    found: _Compared | None = None
    pending, seen = [root], {root}
    for node in pending:
        if node is None or len(pending) > _MOST_NODES:
            break
        if node.name() in BINARY_LOSSES:
            targets = saved_tensor(node, "target")
            weight = _weight_before(node)
            if targets is None or weight is None or not numel(targets) or not targets.is_floating_point():
                return None
            lowest, highest = map(float, map(item, aminmax(targets)))
            if lowest != highest or (found is not None and (found.label, id(found.weight)) != (lowest, id(weight))):
                return None
            found = _Compared(lowest, weight, 1 if found is None else found.outputs + 1)
            continue
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                pending.append(following)
    return found


def _weight_before(loss: Any) -> torch.Tensor | None:
    """The weight of the layer whose output a loss compares, views and sigmoids aside; None if there is none."""
    layer = node_behind(node_before(loss, 0), _SCORES)
    place = None if layer is None else LAYERS.get(layer.name())
    leaf = None if place is None else node_behind(node_before(layer, place), _OF_WEIGHT)
    if leaf is None or leaf.name() != LEAF:
        return None
    weight: torch.Tensor = leaf.variable
    return weight
