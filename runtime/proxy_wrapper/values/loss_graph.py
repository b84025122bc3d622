"""Reads off the autograd graph how a loss is computed: from the loss back to what the model put out.

Where the model ends is told by sequence numbers: autograd numbers its nodes as they are made, so those up to that of
the model's output were made inside of it. Reading the graph makes no node and changes none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.events import LossNode
from proxy_wrapper.values.describe import PLAIN
from proxy_wrapper.values.value_marks import version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import torch

MOST_NODES: Final = 24
"""How many nodes of a graph are read at most: a loss has three to ten."""

_MOST_INSIDE: Final = 4
"""How many nodes inside the model are read on a way back: enough to see through a few views what it ended with."""

_MOST_BELOW: Final = 4
"""How many nodes are read below one: a stack or a sum of many has as many of one sort."""

_LEAF: Final = "torch::autograd::AccumulateGrad"


def last_node_of(outputs: Iterable[torch.Tensor]) -> int:
    """The sequence number of the node that was made last for what a model put out; -1 if there is none.

    To be called where no function mode sees it. A view of something that was written to is left out: to ask for its
    node would make a new one, earlier than the program does.
    """
    found = -1
    for output in outputs:
        if type(output) in PLAIN and output.requires_grad and (version_of(output) == 0 or output._base is None):
            node = output.grad_fn
            if node is not None:
                found = max(found, _sequence_number(node))
    return found


def loss_nodes(loss: torch.Tensor, last_of_model: int) -> tuple[LossNode, ...]:
    """The nodes of a loss, breadth first, the leaves left out.

    To be called where no function mode sees it, right before a backward pass begins with `loss`.

    Args:
        loss: what a backward pass begins with.
        last_of_model: the sequence number of the last node inside the model; -1 if that is not known.
    """
    if loss.grad_fn is None:
        return (LossNode(_LEAF.rpartition(":")[2], tuple(loss.shape)),)
    nodes: list[LossNode] = []
    pending: list[tuple[Any, int, int]] = [(loss.grad_fn, -1, 0)]
    seen = {loss.grad_fn}
    for node, parent, depth in pending:
        if len(nodes) == MOST_NODES:
            break
        is_inside = _sequence_number(node) <= last_of_model
        number = len(nodes)
        nodes.append(LossNode(node.name(), _shape(node), parent, is_inside))
        below = depth + is_inside
        if below > _MOST_INSIDE:
            continue
        new = 0
        for following, _ in node.next_functions:
            if following is not None and following not in seen and following.name() != _LEAF:
                seen.add(following)
                pending.append((following, number, below))
                new += 1
                if new == _MOST_BELOW:
                    break
    return tuple(nodes)


def _sequence_number(node: Any) -> int:
    number: int = node._sequence_nr()
    return number


def _shape(node: Any) -> Sequence[int]:
    """The shape of what the call of a node gave, which is that of the gradient that it takes."""
    metadata = getattr(node, "_input_metadata", None)  # Not in the oldest versions that are supported.
    if not metadata:
        return ()
    shape = metadata[0].shape
    return tuple(size if type(size) is int else 0 for size in shape)
