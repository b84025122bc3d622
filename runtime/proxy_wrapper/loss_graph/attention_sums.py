"""Finds attentions whose weights sum to 1 over queries or heads, although each query takes the sum over the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.loss_graph.nodes import (
    COPIED,
    PRODUCT,
    SAME_VALUES,
    SCALED,
    SOFTMAXES,
    SUMS,
    VIEWS,
    inputs_of,
    node_before,
    node_behind,
    shape_of,
    view_shapes,
)
from proxy_wrapper.loss_graph.pattern import Pattern
from proxy_wrapper.loss_graph.saved_tensors import saved_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.loss_graph.graph import LossGraph

OVER_QUERIES: Final = "softmax-over-queries"

_BMM: Final = "BmmBackward0"
_SCORES: Final = SAME_VALUES | SCALED | SUMS | {"MaskedFillBackward0"}
"""The nodes between a product of queries and keys and the softmax over it."""
_KEPT: Final = COPIED | {"NativeDropoutBackward0"}
_TRANSPOSED: Final = frozenset({"TransposeBackward0", "TransposeBackward1"})
_MOST_ATTENTIONS: Final = 8
_FARTHEST: Final = 12
"""The most nodes between a softmax and the product that uses it."""
_ONE: Final = -1
"""Stands for a dimension that the weights do not have."""


def softmaxes_over_queries(graph: LossGraph) -> Iterator[Pattern]:
    """The first softmax over products of n queries and n keys that sums to 1 over the queries, or over the heads.

    The dimension of the keys is the one that is then summed over. Only weights that go unchanged into that sum count:
    slots that compete for their inputs are divided by their sum.
    """
    for node in graph.named(SOFTMAXES)[:_MOST_ATTENTIONS]:
        shape, dim = shape_of(node), saved_number(node, "dim")
        scores = node_behind(node_before(node, 0), _SCORES)
        if dim is None or len(shape) < 3 or scores is None or scores.name() != _BMM:
            continue
        dim %= len(shape)
        summed = set(_summed_dims(graph, node, len(shape)))
        if len(summed) == 1 and shape[dim] > 1:
            (keys,) = summed
            if dim and keys not in (dim, _ONE) and shape[keys] in _without(shape, (0, keys)):
                yield Pattern(OVER_QUERIES, shape, dim=dim)
                return


def _without(shape: Sequence[int], dims: Sequence[int]) -> list[int]:
    return [size for dim, size in enumerate(shape) if dim not in dims]


def _summed_dims(graph: LossGraph, softmax: Any, dimensions: int) -> Iterator[int]:
    """The dimensions of a softmax over which the products that use it sum."""
    pending: list[tuple[Any, list[int]]] = [(softmax, list(range(dimensions)))]
    for node, dims in pending:
        for user in graph.users(node) if len(pending) < _FARTHEST else ():
            if user.name() == _BMM:
                is_first = node_before(user, 0) is node
                if is_first != (node_before(user, 1) is node):
                    yield dims[-1] if is_first else dims[-2]
                continue
            after = _dims_after(user, dims)
            if after is not None:
                pending.append((user, after))


def _dims_after(node: Any, dims: Sequence[int]) -> list[int] | None:
    """The dimensions of a softmax that those of a node's result are, given those of its input; None if unknown."""
    name, shape, found = node.name(), shape_of(node), list(dims)
    if name in VIEWS:
        return _dims_of_view(node, dims)
    if name in _KEPT or (name == PRODUCT and len(inputs_of(node)) == 1 and len(shape) == len(dims)):  # Dropout.
        return found
    if name == "ExpandBackward0":
        return [_ONE] * (len(shape) - len(dims)) + found
    if name == "UnsqueezeBackward0":
        place = saved_number(node, "dim")
        if place is not None:
            found.insert(place % len(shape), _ONE)
            return found
    if name == "PermuteBackward0":
        order = getattr(node, "_saved_dims", ())
        return [dims[each if each < len(dims) else each - (1 << 64)] for each in order]
    if name in _TRANSPOSED:
        first, second = saved_number(node, "dim0"), saved_number(node, "dim1")
        if first is not None and second is not None:
            found[first], found[second] = found[second], found[first]
            return found
    return None


def _dims_of_view(node: Any, dims: Sequence[int]) -> list[int] | None:
    """The same for a view that adds or drops dimensions of size 1, or that joins or splits the leading ones."""
    before, after = view_shapes(node) or ((), ())
    if len(before) != len(dims):
        return None
    kept = [(dim, size) for dim, size in zip(dims, before, strict=True) if size != 1]
    sizes = [size for size in after if size != 1]
    if [size for _, size in kept] != sizes:
        if [size for _, size in kept[-2:]] != sizes[-2:]:
            return None
        kept = [(_ONE, size) for size in sizes[:-2]] + kept[-2:]
    rest = (dim for dim, _ in kept)
    return [_ONE if size == 1 else next(rest) for size in after]
