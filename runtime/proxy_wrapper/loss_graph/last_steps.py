"""Finds recurrent layers of which only the last step is used, where it is padding for most sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.loss_graph.nodes import inputs_of, only_node_before
from proxy_wrapper.loss_graph.pattern import Pattern
from proxy_wrapper.loss_graph.saved_tensors import saved_number
from proxy_wrapper.loss_graph.tokens import tokens_of
from proxy_wrapper.values.torch_functions import select, tolist

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.loss_graph.graph import LossGraph
    from proxy_wrapper.loss_graph.tokens import Tokens

LAST_STEP: Final = "last-step-padding"

_FUSED_RNN: Final = "MkldnnRnnLayerBackward0"
_SUM: Final = "AddBackward0"


def last_steps(graph: LossGraph) -> Iterator[Pattern]:
    """The last step of a recurrent layer's output, where it is padding for at least half of the sequences."""
    selected = graph.named(("SelectBackward0",))
    tokens = tokens_of(graph) if selected else []
    for node in selected if tokens else ():
        yield from _of_last_step(node, tokens)


def _of_last_step(node: Any, tokens: Sequence[Tokens]) -> Iterator[Pattern]:
    dim, index = saved_number(node, "dim"), saved_number(node, "index")
    sizes = tuple(getattr(node, "_saved_self_sym_sizes", ()))
    if dim not in (0, 1) or index is None or len(sizes) != len(("batch", "steps", "features")):
        return
    length = sizes[dim]
    if index not in (length - 1, -1) or not _is_recurrent(only_node_before(node), length):
        return
    if len(tokens) != 1 or sizes[0] == sizes[1] or tokens[0].padding < 0:
        return
    indices, padding = tokens[0].indices, tokens[0].padding
    if tuple(indices.shape) != sizes[:2]:
        dim = 1 - dim
    if indices.shape[dim] != length or sorted(indices.shape) != sorted(sizes[:2]):
        return
    first, last = (tolist(select(indices, dim, place)) for place in (0, length - 1))
    padded = sum(each == padding for each in last)
    if padding not in first and 2 <= padded < len(last) and padded * 2 >= len(last):
        yield Pattern(LAST_STEP, sizes, dim, (float(padded), float(len(last))))


def _is_recurrent(node: Any, length: int) -> bool:
    """Whether a node, or each node that it joins, computed the outputs of a recurrent layer for `length` steps."""
    while node is not None and node.name() in ("TransposeBackward0", "TransposeBackward1"):
        node = only_node_before(node)
    if node is None:
        return False
    inputs = [each for each, _ in node.next_functions]
    if node.name() == "CatBackward0":  # Both directions.
        return len(inputs) == len(("forward", "backward")) and all(_is_recurrent(each, length) for each in inputs)
    if node.name() == "StackBackward0":
        return len(inputs) == length and all(each is not None and _is_cell(each) for each in inputs)
    return bool(node.name() == _FUSED_RNN)


def _is_cell(node: Any) -> bool:
    """Whether a node computed one step of a GRU or of a simple recurrent layer."""
    given = [each.node.name() for each in inputs_of(node)]
    if node.name() == _SUM:
        return given == ["MulBackward0", "TanhBackward0"]
    return node.name() in ("TanhBackward0", "ReluBackward0") and given == [_SUM]
