"""Optimizers whose state shares memory with a gradient are reported, and those that keep a copy are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks import optimizers
from tests.proxy_trace.checks.judged import find

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Momentum(torch.optim.Optimizer):
    """Keeps the first gradient as its momentum: what `keep` makes of it, under a key."""

    def __init__(self, params: Any, key: str, keep: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__(params, {"lr": 0.1})
        self.key, self.keep = key, keep

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for each in self.param_groups[0]["params"]:
            state = self.state[each]
            if self.key in state:
                state[self.key].mul_(0.9).add_(each.grad)
            else:
                state[self.key] = self.keep(each.grad)
            each.sub_(0.1 * state[self.key])


@pytest.mark.parametrize(
    ("key", "keep", "to_none", "is_told"),
    [
        pytest.param("momentum_buffer", lambda grad: grad, False, True, id="memory"),
        pytest.param("momentum_buffer", lambda grad: grad.detach(), False, True, id="detached"),
        pytest.param("momentum_buffer", lambda grad: grad.clone(), False, False, id="copy"),
        pytest.param("momentum_buffer", lambda grad: grad, True, False, id="set to None"),
        pytest.param("grad", lambda grad: grad, False, False, id="for the step alone"),
    ],
)
def test_what_an_optimizer_keeps(
    tmp_path: Path, key: str, keep: Callable[[torch.Tensor], torch.Tensor], to_none: bool, is_told: bool
) -> None:
    layer = Proxy.Proxy(nn.Linear(4, 3), recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    optimizer = Momentum(layer.parameters(), key, keep)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=to_none)
        layer(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    Proxy.unproxy(layer)
    found = find(tmp_path, optimizers.CHECK)
    assert [(each.code, each.name) for each in found] == [("optimizer-keeps-gradient", "model.weight")] * is_told
