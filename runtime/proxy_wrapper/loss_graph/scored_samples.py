"""Reads from the graph of a loss which samples a network has scored, and with which labels the scores are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.loss_graph.arithmetic import terms_of
from proxy_wrapper.loss_graph.nodes import (
    BINARY_LOSSES,
    LAYERS,
    LEAF,
    MEANS,
    SAME_VALUES,
    TRANSPOSED,
    Output,
    behind,
    input_at,
    node_before,
    node_behind,
)
from proxy_wrapper.loss_graph.saved_tensors import saved_tensor
from proxy_wrapper.values.torch_functions import aminmax, is_contiguous, item, narrow, numel, tolist, view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

    from proxy_wrapper.known.entries import StateEntry

_MOST_NODES: Final = 512
_ELEMENTS: Final = 8
_INPUTS: Final = ("mat1", "input", "self")
"""The names under which layers save their inputs."""


class LayerInput(NamedTuple):
    """What enters a layer with this weight: some elements, and whether gradients flow to it."""

    weight: torch.Tensor
    values: tuple[float, ...]
    has_gradient: bool


class Scored(NamedTuple):
    """Samples that a network has scored, and the label of all of them.

    `weight` is the id of the weight of its first layer, and `values` are some elements of the input of that.
    """

    weight: int
    values: tuple[float, ...]
    label: float


def scored_samples(root: Any, find: Callable[[torch.Tensor], StateEntry | None]) -> Iterator[tuple[Scored, bool]]:
    """What a loss compares with one label each, and whether gradients reach the samples.

    Args:
        root: the last node of its graph; may be None.
        find: gives what is known of a tensor of a proxied module; None for others.
    """
    for term, factor in (terms_of(Output(root, 0)) if root is not None else {}).items():
        loss = behind(term, MEANS).node
        targets = saved_tensor(loss, "target") if loss.name() in BINARY_LOSSES and factor > 0 else None
        if targets is None or not numel(targets):
            continue
        lowest, highest = map(float, map(item, aminmax(targets)))
        for weight, values, has_gradient in layer_inputs(loss) if lowest == highest else ():
            state = find(weight)
            if state is not None:
                yield Scored(state.id, values, lowest), has_gradient


def raised_inputs(root: Any) -> Iterator[LayerInput]:
    """What enters the layers behind the scores whose mean a loss raises or lowers, without comparing it with anything.

    Only a generator or an actor has such a loss: no network is trained to raise its own scores for everything.
    """
    for term in terms_of(Output(root, 0)):
        scores = behind(term, MEANS | SAME_VALUES).node
        if scores.name() in LAYERS:
            yield from layer_inputs(scores)


def layer_inputs(loss: Any) -> Iterator[LayerInput]:
    """What enters the layers before a loss."""
    pending = [loss]
    seen = {loss}
    for node in pending:
        place = LAYERS.get(node.name())
        if place is not None and len(pending) <= _MOST_NODES:
            leaf = node_behind(node_before(node, place), TRANSPOSED)
            values = _elements(node) if leaf is not None and leaf.name() == LEAF else ()
            if values:
                yield LayerInput(leaf.variable, values, input_at(node, place - 1) is not None)
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
