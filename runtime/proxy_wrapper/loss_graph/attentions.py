"""Reads which tokens the attentions of a model attend to, and finds those that attend to padding alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.loss_graph.nodes import SOFTMAXES
from proxy_wrapper.loss_graph.pattern import Pattern
from proxy_wrapper.loss_graph.saved_tensors import saved_number, saved_tensor
from proxy_wrapper.loss_graph.token_rows import only_padding_attended
from proxy_wrapper.loss_graph.tokens import MOST_TOKENS, tokens_of
from proxy_wrapper.values.torch_functions import convert, has_any, is_greater, narrow, numel, reshape, select, tolist

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

ATTENDED: Final = "padding-attended"

_FUSED: Final = "ScaledDotProductFlashAttentionForCpuBackward0"
_MOST_ATTENTIONS: Final = 4
_MOST_QUERIES: Final = 128
_LEFT_OUT: Final = -1e4
"""A mask adds less than this to the scores of masked tokens."""


def attentions_of(graph: LossGraph) -> list[Any]:
    """The nodes of the attentions that are nearest to the loss, and of other softmaxes."""
    return graph.named({*SOFTMAXES, _FUSED})[:_MOST_ATTENTIONS]


def sees_later(node: Any, length: int) -> bool | None:
    """Whether self-attention over `length` tokens lets some see later ones; None for other attention."""
    if node.name() == _FUSED:
        query, key, added = (saved_tensor(node, name) for name in ("query", "key", "attn_mask"))
        if query is None or key is None or query.shape[-2] != length or key.shape[-2] != length:
            return None
        if saved_number(node, "is_causal"):
            return False
        if added is None or added.shape[-2] != length:  # A mask shared by all queries has one row.
            return True
        weights: torch.Tensor | None = added if added.dtype == torch.bool else is_greater(added, _LEFT_OUT)
    else:
        weights = saved_tensor(node, "result")
    if weights is None or len(weights.shape) < 3 or tuple(weights.shape[-2:]) != (length, length):
        return None
    while len(weights.shape) > 2:
        weights = select(weights, 0, 0)
    rows = tolist(narrow(weights, 0, 0, min(length, _MOST_QUERIES)))
    return any(any(row[place + 1 :]) for place, row in enumerate(rows))


def attended_padding(graph: LossGraph) -> Iterator[Pattern]:
    """The first attention that masks all tokens but padding."""
    tokens = tokens_of(graph)
    for node in attentions_of(graph) if tokens else ():
        for each in tokens:
            attended = _attended(node, tuple(each.indices.shape))
            if attended is None or numel(each.indices) > MOST_TOKENS:
                continue
            padding = only_padding_attended(tolist(each.indices), attended)
            if padding is not None:
                yield Pattern(ATTENDED, tuple(each.indices.shape), values=(float(padding),))
                return


def _attended(node: Any, shape: tuple[int, ...]) -> list[list[bool]] | None:
    """Which tokens of each sequence any query attends to; None if the attention is over something else."""
    if node.name() == _FUSED:
        weights = saved_tensor(node, "attn_mask")
        seen = weights if weights is None or weights.dtype == torch.bool else is_greater(weights, _LEFT_OUT)
    else:
        weights = saved_tensor(node, "result")
        seen = None if weights is None else convert(weights, torch.bool)
    if seen is None or len(seen.shape) < 3 or seen.shape[-1] != shape[1] or seen.shape[0] % shape[0]:
        return None
    flags: list[list[bool]] = tolist(has_any(reshape(seen, (shape[0], -1, shape[1])), 1))
    return flags
