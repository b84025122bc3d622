"""Reads the tokens that the embeddings of a model were given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.loss_graph.saved_tensors import saved_number, saved_tensor

if TYPE_CHECKING:
    import torch

    from proxy_wrapper.loss_graph.graph import LossGraph

MOST_TOKENS: Final = 1 << 14
"""The most tokens that are compared with others one by one."""


class Tokens(NamedTuple):
    """The input of an embedding: the indices, its number of rows, and the padding index, or -1."""

    indices: torch.Tensor
    vocabulary: int
    padding: int


def tokens_of(graph: LossGraph) -> list[Tokens]:
    """The tokens of each embedding that read several sequences, as far as they are known."""
    return [tokens for node in graph.named(("EmbeddingBackward0",)) if (tokens := _read(node)) is not None]


def _read(node: Any) -> Tokens | None:
    indices, rows = saved_tensor(node, "indices"), saved_number(node, "weight_sym_argsize_0")
    if indices is None or rows is None or len(indices.shape) != 2 or min(indices.shape) < 2:
        return None
    padding = saved_number(node, "padding_idx")
    return Tokens(indices, rows, -1 if padding is None else padding)
