"""Reads the numbers that a loss was multiplied and divided by last, which may divide it for accumulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_wrapper.loss_graph.arithmetic import factor_of
from proxy_wrapper.loss_graph.nodes import SCALED, node_before
from proxy_wrapper.loss_graph.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

FACTOR: Final = "loss-factor"

_FARTHEST: Final = 8


def loss_factors(graph: LossGraph) -> Iterator[Pattern]:
    """The smallest of the factors of a loss, and of the products of the last ones, if all are known numbers."""
    node, whole, found = graph.root, 1.0, []
    for _ in range(_FARTHEST):
        if node is None or node.name() not in SCALED:
            break
        factor = factor_of(node)
        if factor is None:
            return
        whole *= factor
        found += [abs(factor), abs(whole)]
        node = node_before(node, 0)
    if found:
        yield Pattern(FACTOR, (), values=(min(found),))
