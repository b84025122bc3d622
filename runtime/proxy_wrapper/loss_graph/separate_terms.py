"""Finds the terms of a loss whose gradients reach other parameters than those of all other terms.

So it is where an actor's actions are drawn without a gradient: the values that a critic gives them train the critic,
not the actor. Which parameters are stepped afterwards is in the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.loss_graph.nodes import (
    DIFFERENCE,
    LEAF,
    MEANS,
    SAME_VALUES,
    SCALED,
    SUMS,
    TOTALS,
    inputs_of,
    only_node_before,
)
from proxy_wrapper.loss_graph.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from proxy_wrapper.loss_graph.graph import LossGraph

SEPARATE: Final = "separate-term"

_LINEAR: Final = MEANS | TOTALS | SCALED | SAME_VALUES | {"NegBackward0"}
_MOST_TERMS: Final = 8
_MOST_LEAVES: Final = 256


def separate_terms(graph: LossGraph) -> Iterator[Pattern]:
    """The terms, each with the parameters that its gradient reaches."""
    terms = _terms(graph.root)
    reached = [_leaves(term, graph) for term in terms] if 1 < len(terms) <= _MOST_TERMS else []
    if any(each is None for each in reached):
        return
    for place, own in enumerate(reached):
        others = {key for at, each in enumerate(reached) if at != place for key in each or ()}
        if own and others.isdisjoint(own):
            yield Pattern(SEPARATE, (), weights=tuple(own.values()))


def _terms(root: Any) -> list[Any]:
    """The nodes of the terms that a loss adds up, or subtracts, before or after it takes means."""
    found: list[Any] = []
    pending = [root]
    for each in pending:
        node = each
        while node.name() in _LINEAR and (below := only_node_before(node)) is not None:
            node = below
        inputs = inputs_of(node)
        if node.name() in SUMS | {DIFFERENCE} and len(inputs) > 1 and len(pending) <= _MOST_TERMS:
            pending += [one.node for one in inputs]
        else:
            found.append(node)
    return found


def _leaves(term: Any, graph: LossGraph) -> dict[int, torch.Tensor] | None:
    """The parameters behind a term, by the `id` of their nodes; None if there are too many, or not all are known."""
    found: dict[int, torch.Tensor] = {}
    pending, seen = [term], {term}
    for node in pending:
        if node not in graph or len(found) > _MOST_LEAVES:
            return None
        if node.name() == LEAF:
            found[id(node)] = node.variable
        for each in inputs_of(node):
            if each.node not in seen:
                seen.add(each.node)
                pending.append(each.node)
    return found
