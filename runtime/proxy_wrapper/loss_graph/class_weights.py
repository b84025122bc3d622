"""Finds weights of classes in losses, with how often the targets have each class."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.loss_graph.nodes import CLASS_LOSSES
from proxy_wrapper.loss_graph.pattern import Pattern
from proxy_wrapper.loss_graph.saved_tensors import saved_tensor
from proxy_wrapper.values.torch_functions import numel, reshape, tolist, total

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from proxy_wrapper.loss_graph.graph import LossGraph

POSITIVES: Final = "positive-weights"
CLASSES: Final = "class-weights"

_BINARY: Final = ("BinaryCrossEntropyWithLogitsBackward0",)
_HALF: Final = 0.5
_MOST: Final = 32
"""The most weights of a loss that are reported."""
_MOST_TARGETS: Final = 1 << 16


def positive_weights(graph: LossGraph) -> Iterator[Pattern]:
    """Weights of positives in binary cross entropies, all below 0.5.

    Their values are followed by the number of positives for each, and the number of targets for each.
    """
    for node in graph.named(_BINARY):
        weights, targets = saved_tensor(node, "pos_weight"), saved_tensor(node, "target")
        if weights is None or targets is None or not _are_few(weights):
            continue
        count = numel(weights)
        if not numel(targets) or (count > 1 and tuple(targets.shape[-1:]) != (count,)):
            continue
        rows = reshape(targets, (-1, count))
        found: list[float] = tolist(reshape(weights, (-1,)))
        if all(0 < each < _HALF for each in found) and all(each in (0, 1) for each in _some(rows)):
            values = (*found, *map(float, tolist(total(rows, 0))), float(len(rows)))
            yield Pattern(POSITIVES, tuple(targets.shape), values=values)


def class_weights(graph: LossGraph) -> Iterator[Pattern]:
    """Weights of classes in cross entropies that are largest for the most frequent class.

    Their values are followed by the number of targets of each class.
    """
    for node in graph.named(CLASS_LOSSES):
        weights, targets = saved_tensor(node, "weight"), saved_tensor(node, "target")
        if weights is None or targets is None or not _are_few(weights) or numel(targets) > _MOST_TARGETS:
            continue
        wanted = Counter[int](tolist(reshape(targets, (-1,))))
        counts = [float(wanted[place]) for place in range(numel(weights))]
        found: list[float] = tolist(weights)
        if len(found) > 1 and counts[found.index(max(found))] == max(counts):
            yield Pattern(CLASSES, tuple(targets.shape), values=(*found, *counts))


def _are_few(weights: torch.Tensor) -> bool:
    return 1 <= numel(weights) <= _MOST and bool(weights.is_floating_point())


def _some(rows: torch.Tensor) -> list[Any]:
    """Some of the elements of a matrix."""
    found: list[Any] = tolist(reshape(rows, (-1,))[:_MOST_TARGETS])
    return found
