"""Finds recurrent layers whose last step is used, where it is padding for most sequences, or of both directions."""

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
LAST_OF_BOTH: Final = "last-step-of-both"

_FUSED_RNN: Final = "MkldnnRnnLayerBackward0"
_SUM: Final = "AddBackward0"
_BOTH: Final = "CatBackward0"
"""The node that joins the outputs of both directions."""


def last_steps(graph: LossGraph) -> Iterator[Pattern]:
    """The last step of a recurrent layer's output: of both directions, or padding in at least half of the sequences."""
    for node in graph.named(("SelectBackward0",)):
        dim, index = saved_number(node, "dim"), saved_number(node, "index")
        sizes = tuple(getattr(node, "_saved_self_sym_sizes", ()))
        if dim not in (0, 1) or index is None or len(sizes) != len(("batch", "steps", "features")):
            continue
        outputs = _untransposed(only_node_before(node))
        if index not in (sizes[dim] - 1, -1) or not _is_recurrent(outputs, sizes[dim]):
            continue
        if outputs.name() == _BOTH:
            yield Pattern(LAST_OF_BOTH, sizes, dim)
        yield from _padding(dim, sizes, tokens_of(graph))


def _padding(dim: int, sizes: tuple[int, ...], tokens: Sequence[Tokens]) -> Iterator[Pattern]:
    length = sizes[dim]
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


def _untransposed(node: Any) -> Any:
    """The node before any transpositions."""
    while node is not None and node.name() in ("TransposeBackward0", "TransposeBackward1"):
        node = only_node_before(node)
    return node


def _is_recurrent(node: Any, length: int) -> bool:
    """Whether a node, or each node that it joins, computed the outputs of a recurrent layer for `length` steps."""
    if node is None:
        return False
    inputs = [each for each, _ in node.next_functions]
    if node.name() == _BOTH:
        are_two = len(inputs) == len(("forward", "backward"))
        return are_two and all(_is_recurrent(_untransposed(each), length) for each in inputs)
    if node.name() == "StackBackward0":
        return len(inputs) == length and all(each is not None and _is_cell(each) for each in inputs)
    return bool(node.name() == _FUSED_RNN)


def _is_cell(node: Any) -> bool:
    """Whether a node computed one step of a GRU or of a simple recurrent layer."""
    given = [each.node.name() for each in inputs_of(node)]
    if node.name() == _SUM:
        return given == ["MulBackward0", "TanhBackward0"]
    return node.name() in ("TanhBackward0", "ReluBackward0") and given == [_SUM]
