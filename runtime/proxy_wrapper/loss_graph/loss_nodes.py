"""Reads from the autograd graph how a loss is computed: from the loss back to the model's output.

Sequence numbers show where the model ends. Autograd numbers its nodes in order of creation, so nodes with numbers up to
that of the model's output were created inside it. Reading the graph neither creates nor changes a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.events import LossNode
from proxy_wrapper.loss_graph.nodes import LEAF, sequence_number, shape_of
from proxy_wrapper.values.describe import PLAIN
from proxy_wrapper.values.value_marks import version_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

MOST_NODES: Final = 24
"""The maximum number of nodes read from a graph. A loss has three to ten."""

_MOST_INSIDE: Final = 4
"""The maximum number of nodes inside the model on a path: enough to find its last operation behind a few views."""

_MOST_BELOW: Final = 4
"""The maximum number of nodes read below one. A stack or sum of many tensors has many similar ones."""


def last_node_of(outputs: Iterable[torch.Tensor]) -> int:
    """The highest sequence number of the nodes of a model's outputs; -1 if there is none.

    Call it where no function mode is active. A view whose base was changed in place is skipped, because reading its
    node would create a new one, earlier than the program does.
    """
    found = -1
    for output in outputs:
        if type(output) in PLAIN and output.requires_grad and (version_of(output) == 0 or output._base is None):
            node = output.grad_fn
            if node is not None:
                found = max(found, sequence_number(node))
    return found


def loss_nodes(loss: torch.Tensor, last_of_model: int) -> tuple[LossNode, ...]:
    """The nodes of a loss in breadth-first order, without leaves.

    Call it where no function mode is active, right before a backward pass on `loss` begins.

    Args:
        loss: the tensor on which a backward pass is called.
        last_of_model: the sequence number of the last node inside the model; -1 if unknown.
    """
    if loss.grad_fn is None:
        return (LossNode(LEAF.rpartition(":")[2], tuple(loss.shape)),)
    nodes: list[LossNode] = []
    pending: list[tuple[Any, int, int]] = [(loss.grad_fn, -1, 0)]
    seen = {loss.grad_fn}
    for node, parent, depth in pending:
        if len(nodes) == MOST_NODES:
            break
        is_inside = sequence_number(node) <= last_of_model
        number = len(nodes)
        nodes.append(LossNode(node.name(), shape_of(node), parent, is_inside))
        below = depth + is_inside
        if below > _MOST_INSIDE:
            continue
        new = 0
        for following, _ in node.next_functions:
            if following is not None and following not in seen and following.name() != LEAF:
                seen.add(following)
                pending.append((following, number, below))
                new += 1
                if new == _MOST_BELOW:
                    break
    return tuple(nodes)
