"""Finds the values in an autograd graph that `torch.normal` drew although a gradient should reach their mean.

The gradient of `torch.normal(mean, std)` is zero. This is right if only the log-density of the drawn value has a
gradient, as in policies. The mean is subtracted there, which distinguishes this case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.loss_graph.nodes import DIFFERENCE, ERRORS, LAYERS, SAME_VALUES, behind, inputs_of, shape_of
from proxy_wrapper.loss_graph.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

DRAW: Final = "normal-draw"

_NORMAL: Final = frozenset({"NormalBackward1", "NormalBackward2", "NormalBackward3"})
_COMPARED: Final = frozenset({*ERRORS, DIFFERENCE, "RsubBackward0", "RsubBackward1"})
"""A policy subtracts its mean from the drawn value. A model that reads its own predictions compares them by a loss."""
_PRODUCTS: Final = frozenset({*LAYERS, "BmmBackward0"})


def draws_without_gradient(graph: LossGraph) -> Iterator[Pattern]:
    """The draws whose values a product uses, and whose mean or deviation has a gradient only through other nodes."""
    for node in graph.named(_NORMAL):
        if _lacks_gradient(node, graph):
            yield Pattern(DRAW, shape_of(node))


def _lacks_gradient(node: Any, graph: LossGraph) -> bool:
    """Whether a product uses the draw, and other nodes use its mean or deviation without comparing them."""
    if not any(each.name() in _PRODUCTS for each in _uses_of(node, graph)):
        return False
    is_used_elsewhere = False
    for source in inputs_of(node):
        viewed = behind(source, SAME_VALUES).node
        others = [each for each in _uses_of(viewed, graph) if each is not node]
        is_used_elsewhere |= bool(others)
        if any(each.name() in _COMPARED for each in others):
            return False
    return is_used_elsewhere


def _uses_of(node: Any, graph: LossGraph) -> list[Any]:
    """The nodes that use the value of a node, directly or through views."""
    found: list[Any] = []
    pending = list(graph.users(node))
    for each in pending:
        if each.name() in SAME_VALUES:
            pending += graph.users(each)
        else:
            found.append(each)
    return found
