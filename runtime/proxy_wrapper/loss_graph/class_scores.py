"""Finds softmaxes and class losses over something else than the scores of classes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from proxy_wrapper.loss_graph.nodes import (
    CLASS_LOSS,
    LOG_SOFTMAX,
    MATRIX_PRODUCTS,
    SCALED,
    TRANSPOSED,
    node_before,
    shape_of,
    view_shapes,
)
from proxy_wrapper.loss_graph.pattern import Pattern
from proxy_wrapper.loss_graph.saved_tensors import saved_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

SOFTMAX: Final = "softmax"

_FEWEST_DIMENSIONS: Final = 3
"""The fewest dimensions of scores in which a view may mix up the classes: batch, classes, positions."""


def softmaxes(graph: LossGraph) -> Iterator[Pattern]:
    """Every softmax, with its dimension."""
    for node in graph.named(("SoftmaxBackward0",)):
        dim, shape = saved_number(node, "dim"), shape_of(node)
        if dim is not None and shape:
            yield Pattern(SOFTMAX, shape, dim=dim % len(shape))


def classes_in_views(graph: LossGraph) -> Iterator[Pattern]:
    """Every log-softmax over a view that mixes up the classes."""
    for node in graph.named((LOG_SOFTMAX,)):
        viewed = view_shapes(node_before(node, 0))
        if viewed is None:
            continue
        before, after = viewed
        count = math.prod(before) // before[1] if len(before) >= _FEWEST_DIMENSIONS and before[1] > 1 else 0
        if count > before[0] and tuple(after) == (count, before[1]) and before[1] != before[-1]:
            yield Pattern("classes-view", before, dim=1)


def similarities_with_self(graph: LossGraph) -> Iterator[Pattern]:
    """Every class loss whose scores are products of vectors with themselves.

    A divergence from the products of a teacher is exempt: both sides contain the product of each vector with itself.
    """
    for node in graph.named((CLASS_LOSS,)):
        before = node_before(node, 0)
        if before is None or before.name() != LOG_SOFTMAX:
            continue
        before = node_before(before, 0)
        while before is not None and before.name() in SCALED and node_before(before, 1) is None:
            before = node_before(before, 0)
        if before is None or before.name() not in MATRIX_PRODUCTS:
            continue
        left, right = node_before(before, 0), node_before(before, 1)
        if left is not None and right is not None and right.name() in TRANSPOSED and node_before(right, 0) is left:
            yield Pattern("self-similarity", shape_of(before))
