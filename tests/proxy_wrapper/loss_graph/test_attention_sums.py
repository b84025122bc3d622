"""Attention weights that are normalised over one dimension and summed over the other are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F

from proxy_wrapper.loss_graph.attention_sums import softmaxes_over_queries
from proxy_wrapper.loss_graph.graph import LossGraph

if TYPE_CHECKING:
    from collections.abc import Callable


def by_einsum(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Attention written as two contractions."""
    scores = torch.einsum("bqd,bkd->bqk", x, x) / 2
    return torch.einsum("bqk,bkd->bqd", scores.softmax(dim), x)


def of_heads(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Attention with two heads, a mask and dropout."""
    x = x.view(2, 5, 2, 4).transpose(1, 2)
    scores = (x @ x.transpose(-2, -1) / 2).masked_fill(torch.ones(5, 5).triu(1) > 0, -1e9)
    return F.dropout(scores.softmax(dim), 0.1) @ x


def of_last_heads(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Attention whose heads come last."""
    x = x.view(2, 5, 2, 4)
    scores = torch.einsum("bihd,bjhd->bijh", x, x)
    return torch.einsum("bijh,bjhd->bihd", scores.softmax(dim), x)


def of_images(x: torch.Tensor, *, is_transposed: bool) -> torch.Tensor:
    """Attention that has its values in columns."""
    scores = torch.bmm(x, x.transpose(1, 2)).softmax(-1)
    return torch.bmm(x.transpose(1, 2), scores.permute(0, 2, 1) if is_transposed else scores)


def of_slots(x: torch.Tensor) -> torch.Tensor:
    """Attention whose queries compete for the keys; each divides its weights by their sum."""
    weights = (x @ x.mT).softmax(-2)
    return (weights / weights.sum(-1, keepdim=True)) @ x


@pytest.mark.parametrize(
    ("compute", "is_found"),
    [
        pytest.param(lambda x: by_einsum(x, 1), True, id="einsum over the queries"),
        pytest.param(lambda x: by_einsum(x, 2), False, id="einsum"),
        pytest.param(lambda x: of_heads(x, -2), True, id="heads over the queries"),
        pytest.param(lambda x: of_heads(x, 1), True, id="over the heads"),
        pytest.param(lambda x: of_heads(x, -1), False, id="heads"),
        pytest.param(lambda x: of_last_heads(x, 1), True, id="last heads over the queries"),
        pytest.param(lambda x: of_last_heads(x, 3), True, id="over the last heads"),
        pytest.param(lambda x: of_last_heads(x, 2), False, id="last heads"),
        pytest.param(lambda x: of_images(x, is_transposed=False), True, id="columns without a transposition"),
        pytest.param(lambda x: of_images(x, is_transposed=True), False, id="columns"),
        pytest.param(of_slots, False, id="slots"),
        pytest.param(lambda x: (x @ x.mT).softmax(-2).mT @ x, False, id="transposed before"),
        pytest.param(lambda x: (x @ x[:, :3].mT).softmax(-2) @ x[:, :3], False, id="other numbers of keys"),
        pytest.param(lambda x: (x[..., :5] * 2).softmax(-2) @ x, False, id="no products"),
    ],
)
def test_the_dimension_of_a_softmax(compute: Callable[[torch.Tensor], torch.Tensor], is_found: bool) -> None:
    x = torch.randn(2, 5, 8, requires_grad=True) * 1.0
    graph = LossGraph(compute(x).sum().grad_fn)
    assert [each.what for each in softmaxes_over_queries(graph)] == ["softmax-over-queries"] * is_found
