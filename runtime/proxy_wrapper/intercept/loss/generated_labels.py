"""Watches whether a generator's loss has the label with which the discriminator is trained for the same samples.

At the discriminator's pass, generated samples have no gradient; at the generator's pass, they have one. Both passes
begin with the same first layer, which has saved its input. A few elements of it show whether the samples are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.events import GraphPattern
from proxy_wrapper.levels import INFO
from proxy_wrapper.loss_graph.arithmetic import terms_of
from proxy_wrapper.loss_graph.nodes import (
    BINARY_LOSSES,
    LAYERS,
    LEAF,
    MEANS,
    TRANSPOSED,
    Output,
    behind,
    input_at,
    node_before,
    node_behind,
)
from proxy_wrapper.loss_graph.saved_tensors import saved_tensor
from proxy_wrapper.values.statistics import unobserved
from proxy_wrapper.values.torch_functions import aminmax, is_contiguous, item, narrow, numel, tolist, view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

    from proxy_wrapper.tracer import Tracer

OWN_LABEL: Final = "label-of-generated"

_MOST_PLACES: Final = 20
_MOST_PASSES: Final = 32
_MOST_NODES: Final = 512
_FEWEST: Final = 16
_ELEMENTS: Final = 8
_INPUTS: Final = ("mat1", "input", "self")
"""The names under which layers save their inputs."""


class _Scored(NamedTuple):
    """Samples that a network has scored, and the label of all of them.

    `weight` is the id of the weight of its first layer, and `values` are some elements of the input of that.
    """

    weight: int
    values: tuple[float, ...]
    label: float


class GeneratedLabels:
    """Creates `GraphPattern` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._passes: dict[int, int] = {}
        # The samples of the last passes at each place: those without a gradient, and those with one.
        self._given: dict[int, list[_Scored]] = {}
        self._generated: dict[int, list[_Scored]] = {}
        # How often the labels of generated samples were equal at a place; -1 if they once were not.
        self._equal: dict[int, int] = {}

    def look(self, roots: Sequence[torch.Tensor], location: int) -> None:
        """Examine a backward pass, right before it begins."""
        passes = self._passes.get(location, 0)
        if len(roots) != 1 or passes >= _MOST_PASSES or (not passes and len(self._passes) >= _MOST_PLACES):
            return
        self._passes[location] = passes + 1
        with unobserved() as readable:
            found = list(self._scored(roots[0].grad_fn)) if readable else []
        self._given[location] = [scored for scored, has_gradient in found if not has_gradient]
        self._generated[location] = [scored for scored, has_gradient in found if has_gradient]
        if not found:
            self._passes[location] = _MOST_PASSES  # The losses at a place are of one kind.
        for place, generated in self._generated.items():
            for at, given in self._given.items():
                if location in (place, at):
                    self._compare(generated, given, place)

    def _compare(self, generated: Sequence[_Scored], given: Sequence[_Scored], place: int) -> None:
        for one in generated:
            for other in given:
                if one[:2] == other[:2] and self._equal.get(place, 0) >= 0:
                    self._equal[place] = self._equal.get(place, 0) + 1 if one.label == other.label else -1
                    if self._equal[place] == _FEWEST:
                        self._emit(one, place)

    def _scored(self, root: Any) -> Iterator[tuple[_Scored, bool]]:
        """What a loss compares with one label each, and whether gradients reach the samples."""
        known = self._tracer.registry.by_identity
        for term, factor in (terms_of(Output(root, 0)) if root is not None else {}).items():
            loss = behind(term, MEANS).node
            targets = saved_tensor(loss, "target") if loss.name() in BINARY_LOSSES and factor > 0 else None
            if targets is None or not numel(targets):
                continue
            lowest, highest = map(float, map(item, aminmax(targets)))
            for weight, values, has_gradient in _first_layers(loss) if lowest == highest else ():
                state = known.get(id(weight))
                if state is not None and state.tensor() is weight:
                    yield _Scored(state.id, values, lowest), has_gradient

    def _emit(self, scored: _Scored, location: int) -> None:
        tracer, thread = self._tracer, self._tracer.thread
        event = GraphPattern(
            *(tracer.now_us(), tracer.step, 0, location, thread.number, thread.stage, OWN_LABEL),
            weights=(scored.weight,),
            values=(scored.label,),
        )
        tracer.broadcast(event, location, level=INFO)


def _first_layers(loss: Any) -> Iterator[tuple[torch.Tensor, tuple[float, ...], bool]]:
    """The weights of the layers before a loss, with elements of their inputs, and whether these have a gradient."""
    pending = [loss]
    seen = {loss}
    for node in pending:
        place = LAYERS.get(node.name())
        if place is not None and len(pending) <= _MOST_NODES:
            leaf = node_behind(node_before(node, place), TRANSPOSED)
            values = _elements(node) if leaf is not None and leaf.name() == LEAF else ()
            if values:
                yield leaf.variable, values, input_at(node, place - 1) is not None
        for following, _ in node.next_functions if len(pending) <= _MOST_NODES else ():
            if following is not None and following not in seen:
                seen.add(following)
                pending.append(following)


def _elements(layer: Any) -> tuple[float, ...]:
    """A few elements of the input of a layer; () if it is not known, or if they are all the same."""
    saved = next((each for each in (saved_tensor(layer, name) for name in _INPUTS) if each is not None), None)
    if saved is None or numel(saved) < _ELEMENTS or not is_contiguous(saved):
        return ()
    start = min(numel(saved) * 3 // 7, numel(saved) - _ELEMENTS)
    values = tuple(tolist(narrow(view(saved, (-1,)), 0, start, _ELEMENTS)))
    return values if len({*values}) > 1 else ()
