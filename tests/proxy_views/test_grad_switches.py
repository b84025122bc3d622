"""What switches gradients in and around activation checkpoints is in the graph, although a reentrant one hides it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.proxy_views.same_results import assert_replays, traced


def under_no_grad(layer: nn.Module, x: torch.Tensor) -> Any:
    y = layer(x)
    with torch.no_grad():
        scale = layer(y)
        with torch.enable_grad():
            offset = layer(y).sin()
        scale = scale * layer(scale)
    return y * scale + offset


@torch.no_grad()
def decorated(layer: nn.Module, x: torch.Tensor) -> Any:
    return layer(x)


def under_a_decorator(layer: nn.Module, x: torch.Tensor) -> Any:
    return layer(x) * decorated(layer, x)


def by_plain_calls(layer: nn.Module, x: torch.Tensor) -> Any:
    torch.set_grad_enabled(False)
    scale = layer(x)
    torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        offset = layer(x)
    return layer(x) * scale + offset


def behind_an_exception(layer: nn.Module, x: torch.Tensor) -> Any:
    try:
        with torch.no_grad():
            raise ValueError
    except ValueError:
        return layer(x)


FUNCTIONS = [under_no_grad, under_a_decorator, by_plain_calls, behind_an_exception]


class Checkpointed(nn.Module):
    """Calls `function` in a checkpoint, in one within another, and in one under `no_grad`."""

    def __init__(self, function: Any, reentrant: bool, inner: bool) -> None:
        super().__init__()
        self.function, self.reentrant, self.inner = function, reentrant, inner
        self.layer = nn.Linear(3, 3)

    def part(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.function(self.layer, x)
        return out

    def outer(self, x: torch.Tensor) -> Any:
        return checkpoint(self.part, self.layer(x), use_reentrant=self.inner) + self.part(x)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.layer(x)
        with torch.no_grad():
            scale = checkpoint(self.outer, y, use_reentrant=self.reentrant)
        return checkpoint(self.outer, y, use_reentrant=self.reentrant) * scale


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize(("reentrant", "inner"), [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_a_checkpoint_computes_again_with_the_gradients_that_the_model_has(
    function: Any, reentrant: bool, inner: bool
) -> None:
    if function is by_plain_calls and reentrant:
        inner = False  # What it leaves on would change what the checkpoint around it does.
    model = Checkpointed(function, reentrant, inner)
    trace = traced(model, torch.randn(4, 3))
    assert_replays(trace, model, torch.randn(4, 3))
    assert_replays(trace, model, torch.randn(5, 3))
    assert torch.is_grad_enabled()
    x = torch.randn(5, 3)
    assert torch.equal(trace.graph(checkpoint=False)(x), model(x))
