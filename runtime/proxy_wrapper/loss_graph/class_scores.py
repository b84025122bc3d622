"""Finds softmaxes and class losses over something else than the scores of classes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from proxy_wrapper.loss_graph.nodes import (
    CLASS_LOSS,
    LOG_SOFTMAX,
    MATRIX_PRODUCTS,
    QUOTIENT,
    SCALED,
    SOFTMAXES,
    TOTALS,
    TRANSPOSED,
    node_before,
    node_behind,
    shape_of,
    view_shapes,
)
from proxy_wrapper.loss_graph.pattern import Pattern
from proxy_wrapper.loss_graph.saved_tensors import saved_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

SOFTMAX: Final = "softmax"

CLASSES_OVER_SAMPLES: Final = "class-softmax"

_OVER_CLASSES: Final = SOFTMAXES | {LOG_SOFTMAX}
_LOGARITHMS: Final = frozenset(
    {"LogBackward0", "AddBackward0", "ClampBackward0", "ClampBackward1", "ClampMinBackward0"}
)
_EXPANDED: Final = frozenset({"ExpandBackward0"})
_FEWEST_DIMENSIONS: Final = 3
"""The fewest dimensions of scores in which a view may mix up the classes: batch, classes, positions."""


def softmaxes(graph: LossGraph) -> Iterator[Pattern]:
    """Every softmax, with its dimension."""
    for node in graph.named(("SoftmaxBackward0",)):
        dim, shape = saved_number(node, "dim"), shape_of(node)
        if dim is not None and shape:
            yield Pattern(SOFTMAX, shape, dim=dim % len(shape))


def classes_over_samples(graph: LossGraph) -> Iterator[Pattern]:
    """The first probabilities of classes, one row per sample, that a softmax has made to sum to 1 over the samples.

    They are those of a class loss, or of a distribution, which divides them by their sum over the classes.
    """
    for node in graph.named((CLASS_LOSS, QUOTIENT)):
        if node.name() == CLASS_LOSS:
            found = node_behind(node_before(node, 0), _LOGARITHMS)
        else:
            found, total = node_before(node, 0), node_behind(node_before(node, 1), _EXPANDED)
            is_of_own = total is not None and total.name() in TOTALS and node_before(total, 0) is found
            if not is_of_own or not any(each.name() in _LOGARITHMS for each in graph.users(node)):
                continue
        if found is None or found.name() not in _OVER_CLASSES:
            continue
        dim, shape = saved_number(found, "dim"), shape_of(found)
        if dim is not None and len(shape) == 2 and min(shape) > 1 and dim % 2 == 0:
            yield Pattern(CLASSES_OVER_SAMPLES, shape)
            return


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
