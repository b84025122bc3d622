"""What the graph of a result tells about operations that went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F

from proxy_wrapper.loss_graph.operations import delicate_nodes, without_derivative, without_result

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("compute", "operation"),
    [
        (lambda x: x.pow(2).sum(1).sqrt(), "sqrt"),
        (lambda x: x.abs().sum(1) ** 0.5, "pow"),
        (lambda x: torch.acos((x + 1).clamp(-1, 1)), "acos"),
        (lambda x: x.std(dim=1), ""),
        (lambda x: torch.where(x > 0, x / x.detach(), x), "div"),
        (lambda x: torch.where(x > 0, (x + 1e-9).log(), x), ""),
        (lambda x: torch.where(x > 0, x.log(), x), "log"),
        (lambda x: (x.pow(2).sum(1) + 1e-8).sqrt(), ""),
        (lambda x: x.norm(dim=1), ""),
        (lambda x: F.normalize(x, dim=1), ""),
        (lambda x: F.cross_entropy(x, torch.zeros(2, dtype=torch.int64)), ""),
        (lambda x: (x / 3) ** 2, ""),
    ],
)
def test_the_derivative_at_zero(compute: Callable[[torch.Tensor], torch.Tensor], operation: str) -> None:
    x = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.5, 0.25]], requires_grad=True)
    loss = compute(x).sum()
    assert without_derivative(delicate_nodes(loss.grad_fn)) == operation
    loss.backward()
    assert x.grad is not None
    assert bool(operation) == (not x.grad.isfinite().all())


@pytest.mark.parametrize(
    ("compute", "operation"),
    [
        (lambda x: x.masked_fill(torch.tensor(True), float("-inf")).softmax(1) * 2, "softmax"),
        (lambda x: (x - x.mean()) / (x * 0).std(), "div"),
        (lambda x: (x.log() + 1).exp().mean(), "log"),
        (lambda x: (x * 1000).exp().sum(1).log(), "exp"),
        (lambda x: torch.full_like(x, float("nan")) * x, ""),
        (lambda x: (torch.full_like(x, float("nan")) * x).exp(), ""),
    ],
)
def test_the_earliest_operation_that_is_not_finite(
    compute: Callable[[torch.Tensor], torch.Tensor], operation: str
) -> None:
    x = torch.tensor([[-1.0, 2.0, 3.0]], requires_grad=True)
    result = compute(x)
    assert not result.isfinite().all()
    assert without_result(result.grad_fn) == operation
