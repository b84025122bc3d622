"""Finds parameters behind an operation that is flat wherever it has a derivative, such as `round`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.loss_graph.nodes import LEAF, inputs_of, shape_of
from proxy_wrapper.loss_graph.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

ROUNDED: Final = "rounded"

_FLAT: Final = (
    "RoundBackward0",
    "RoundBackward1",
    "FloorBackward0",
    "CeilBackward0",
    "TruncBackward0",
    "SignBackward0",
)
_MOST_NODES: Final = 64
_MOST_LEAVES: Final = 8
_MOST_PATTERNS: Final = 64


def rounded_parameters(graph: LossGraph) -> Iterator[Pattern]:
    """The parameters behind each such operation that is near to them; what reaches the loss otherwise is among them."""
    for node in graph.named(_FLAT)[:_MOST_PATTERNS]:
        pending: list[Any] = [node]
        for each in pending:
            pending += [before for before, _ in inputs_of(each) if before not in pending]
            if len(pending) > _MOST_NODES:
                break
        else:
            leaves = tuple(each.variable for each in pending if each.name() == LEAF)
            if 0 < len(leaves) <= _MOST_LEAVES:
                yield Pattern(ROUNDED, shape_of(node), weights=leaves)
