"""Finds views that swap no dimensions where a transposition is meant: of batches, and of the heads of attentions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.loss_graph.nodes import (
    COPIED,
    SCALED,
    SOFTMAXES,
    SQUEEZED,
    TRANSPOSED,
    VIEWS,
    node_before,
    node_behind,
    view_shapes,
)
from proxy_wrapper.loss_graph.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

_FUSED: Final = "ScaledDotProduct"
"""How the names of the nodes of `scaled_dot_product_attention` begin."""
_PRODUCT: Final = "BmmBackward0"
_NOT_VIEWED: Final = (
    TRANSPOSED | SQUEEZED | COPIED | SCALED | {"ExpandBackward0", "MulBackward1", "NativeDropoutBackward0"}
)
_BEHIND_HEADS: Final = _NOT_VIEWED | VIEWS
"""The nodes between a product of an attention and the views that split or merge its heads."""
_CONVOLUTION: Final = "ConvolutionBackward0"
_KEEPING_CHANNELS: Final = frozenset(
    {"NativeBatchNormBackward0", "NativeGroupNormBackward0", "ReluBackward0", "LeakyReluBackward0", "GeluBackward0"}
    | {"SiluBackward0", "MaxPool2DWithIndicesBackward0", "MaxPool1DBackward0", "AvgPool2DBackward0", "CloneBackward0"}
    | {"AdaptiveAvgPool2DBackward0", "NativeDropoutBackward0"}
)
"""The nodes behind a convolution that keep its channels in the second dimension."""
_BATCH: Final = 3
"""The dimensions of a batch of sequences of vectors."""
_HEADS: Final = 4
"""The dimensions of the values of an attention with several heads: batch, heads, tokens, features."""


class _Heads(NamedTuple):
    """A view that splits features into heads: the shape before, the number of dimensions after, and that of heads."""

    before: tuple[int, ...]
    dimensions: int
    heads: int


def mixed_views(graph: LossGraph) -> Iterator[Pattern]:
    """Views that merge the first or the last two dimensions of a tensor in the wrong order."""
    for node in graph.named(VIEWS):
        viewed = view_shapes(node)
        if viewed is None:
            continue
        before, after = viewed
        if _takes_map_for_tokens(node, before, after):
            yield Pattern("map-as-tokens", before, viewed_to=len(after))
        if _merges_heads(node, before, after):
            yield Pattern("heads-merge", before, dim=before[1], viewed_to=len(after))
        if len(before) < _BATCH or len(after) != len(before) - 1 or min(before[:2]) < 2:
            continue
        if after[0] == before[1] and before[0] % before[1] and after[1] == before[0] * before[2]:
            yield Pattern("view", before, viewed_to=len(after))


def mixed_heads(graph: LossGraph) -> Iterator[Pattern]:
    """Queries and keys that a view splits into heads without keeping their tokens apart."""
    fused = {name for name in graph.names if name.startswith(_FUSED)}
    for node in graph.named({_PRODUCT, *fused}):
        queries, keys = (_split_heads(node_before(node, index)) for index in (0, 1))
        if queries is not None and keys is not None and queries.heads == keys.heads:
            yield Pattern("heads-view", queries.before, dim=queries.heads, viewed_to=queries.dimensions)


def _split_heads(node: Any) -> _Heads | None:
    """The view behind a node that splits (batch, tokens, features) into heads and mixes the tokens; else None."""
    while (node := node_behind(node, _NOT_VIEWED)) is not None and node.name() in VIEWS:
        before, after = view_shapes(node) or ((), ())
        if len(before) == _BATCH and len(after) >= _BATCH and after[-1]:
            batch, tokens, features = before
            heads = features // after[-1]
            is_split = after in ((batch, heads, tokens, after[-1]), (batch * heads, tokens, after[-1]))
            if is_split and heads * after[-1] == features and min(heads, tokens) > 1 and heads != tokens:
                return _Heads(before, len(after), heads)
        node = node_before(node, 0)
    return None


def _takes_map_for_tokens(node: Any, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether a view gives the output of a convolution, (batch, channels, ...), the shape (batch, positions, channels).

    Groups of channels have another shape, unless the positions divide the channels.
    """
    if len(before) < _BATCH or min(before[1], math.prod(before[2:])) < 2:
        return False
    channels, positions = before[1], math.prod(before[2:])
    if after != (before[0], positions, channels) or channels % positions == 0:
        return False
    layer = node_behind(node_before(node, 0), _KEEPING_CHANNELS)
    return layer is not None and layer.name() == _CONVOLUTION


def _merges_heads(node: Any, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether a view merges the heads of an attention, (batch, heads, tokens, features), and mixes the tokens."""
    if len(before) != _HEADS or min(before[1:3]) < 2 or before[1] == before[2]:
        return False
    batch, heads, tokens, features = before
    if after != (batch, tokens, heads * features):
        return False
    product = node_behind(node_before(node, 0), _BEHIND_HEADS)
    if product is None or product.name().startswith(_FUSED):
        return product is not None
    weights = node_behind(node_before(product, 0), _BEHIND_HEADS) if product.name() == _PRODUCT else None
    return weights is not None and weights.name() in SOFTMAXES
