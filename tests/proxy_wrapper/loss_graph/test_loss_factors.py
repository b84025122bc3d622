"""The factors of a loss are read from its graph, up to the first operation that is no product with a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from proxy_wrapper.loss_graph.graph import LossGraph
from proxy_wrapper.loss_graph.loss_factors import loss_factors

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("loss_of", "expected"),
    [
        pytest.param(lambda x: x.mean() / 8, [0.125], id="divided"),
        pytest.param(lambda x: x.mean() * 4, [4.0], id="multiplied"),
        pytest.param(lambda x: x.sum() / 2 * 4, [0.5], id="both"),
        pytest.param(lambda x: x.mean() * 4 / 8, [0.125], id="divided last"),
        pytest.param(lambda x: x.mean(), [], id="as it is"),
        pytest.param(lambda x: x.mean() * x.std(), [], id="a product of results"),
        pytest.param(lambda x: x.mean() / 8 + x.std(), [], id="a sum"),
    ],
)
def test_the_smallest_factor(loss_of: Callable[[torch.Tensor], torch.Tensor], expected: list[float]) -> None:
    node = loss_of(torch.randn(4, requires_grad=True)).grad_fn
    assert [pattern.values[0] for pattern in loss_factors(LossGraph(node))] == expected
