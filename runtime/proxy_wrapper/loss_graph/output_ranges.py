"""Finds regressions whose last activation cannot give the values of the targets."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.loss_graph.nodes import ERRORS, LAYERS, SAME_VALUES, behind, input_at, inputs_of
from proxy_wrapper.loss_graph.pattern import Pattern
from proxy_wrapper.loss_graph.saved_tensors import saved_tensor
from proxy_wrapper.values.torch_functions import is_greater, is_less, item, numel, total

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

_PARTS: Final = 10
"""A tenth of the targets must be out of range: single ones may be noise."""


class _Range(NamedTuple):
    """The values that an activation can give."""

    lowest: float
    highest: float


_RANGES: Final = {
    "ReluBackward0": _Range(0.0, float("inf")),
    "SoftplusBackward0": _Range(0.0, float("inf")),
    "SigmoidBackward0": _Range(0.0, 1.0),
    "TanhBackward0": _Range(-1.0, 1.0),
}


def targets_out_of_range(graph: LossGraph) -> Iterator[Pattern]:
    """Targets of which a tenth or more lie outside the range of the activation that follows the last layer."""
    for node in graph.named(ERRORS):
        output, targets = input_at(node, 0), saved_tensor(node, "target")
        if output is None or targets is None or not numel(targets):
            continue
        activation = behind(output, SAME_VALUES).node
        bounds = _RANGES.get(activation.name())
        layers = inputs_of(activation)
        if bounds is None or not layers or behind(layers[0], SAME_VALUES).node.name() not in LAYERS:
            continue
        outside = int(item(total(is_less(targets, bounds.lowest)))) + int(
            item(total(is_greater(targets, bounds.highest)))
        )
        if outside * _PARTS >= numel(targets):
            finite = [bound for bound in bounds if isfinite(bound)]
            values = (float(outside), float(numel(targets)), *finite)
            yield Pattern("targets-out-of-range", tuple(targets.shape), values=values)
