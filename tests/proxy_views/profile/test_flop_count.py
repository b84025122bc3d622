"""FLOPs of a single call."""

from __future__ import annotations

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from proxy_views.profile import flop_count
from tests.proxy_views.profile.models import CNN, pictures


def test_it_writes_no_gradients() -> None:
    model = CNN()
    flop_count(model, pictures())
    assert [parameter.grad for parameter in model.parameters()] == [None] * len(list(model.parameters()))


def test_a_function_without_gradients_has_no_backward_pass() -> None:
    assert flop_count(torch.mm, torch.ones(2, 3), torch.ones(3, 4)) == (48, 0)


def test_keywords_and_several_outputs_are_taken() -> None:
    def both(a: torch.Tensor, *, b: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"product": a @ b, "other": a @ b}

    a = torch.ones(2, 3, requires_grad=True)
    assert flop_count(both, a, b=torch.ones(3, 4)) == (96, 96)
    assert a.grad is None


def test_no_memory_is_needed() -> None:
    with FakeTensorMode():
        model = nn.Linear(100_000, 100_000)
        assert flop_count(model, torch.ones(1, 100_000)) == (2 * 10**10, 2 * 10**10)
