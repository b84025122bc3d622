"""How fast the averages of models follow them is measured by a few of their elements."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks import averages
from tests.proxy_trace.checks.judged import find

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def trained(
    follow: Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor], tmp_path: Path | None, *, every: int = 1
) -> list[torch.Tensor]:
    """The parameters of a model and of its average after some steps; traced if there is a path."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    average = copy.deepcopy(model).requires_grad_(False)
    if tmp_path is not None:
        Proxy.Proxy(model, recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
        Proxy.Proxy(average, recurse=True, name="target", logdir=tmp_path, log_level=Proxy.INFO)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    for step in range(24 * every):
        given = torch.randn(8, 4)
        optimizer.zero_grad()
        (model(given) - average(given).tanh() - given.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        if step % every == 0:
            with torch.no_grad():
                for own, other in zip(average.parameters(), model.parameters(), strict=True):
                    own.copy_(follow(own, other, step))
    if tmp_path is not None:
        Proxy.unproxy(model)
        Proxy.unproxy(average)
    return [each.detach() for each in (*model.parameters(), *average.parameters())]


@pytest.mark.parametrize(
    ("follow", "every", "is_told"),
    [
        pytest.param(lambda own, other, _: 0.01 * own + 0.99 * other, 1, True, id="swapped"),
        pytest.param(lambda own, other, _: own.lerp(other, 0.95), 1, True, id="by lerp"),
        pytest.param(lambda own, other, _: 0.01 * own + 0.99 * other, 5, False, id="seldom"),
        pytest.param(lambda own, other, _: 0.99 * own + 0.01 * other, 1, False, id="right"),
        pytest.param(lambda own, other, _: 0.5 * own + 0.5 * other, 1, False, id="half"),
        pytest.param(lambda _, other, __: other, 1, False, id="copied"),
        pytest.param(lambda own, other, step: own.lerp(other, 1 / (step + 1)), 1, False, id="warmed up"),
        pytest.param(lambda own, other, _: 0.01 * own + 0.9 * other, 1, False, id="no average"),
        pytest.param(lambda own, _, __: 0.01 * own, 1, False, id="of nothing"),
    ],
)
def test_factors_that_keep_next_to_nothing(
    tmp_path: Path, follow: Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor], every: int, is_told: bool
) -> None:
    plain = trained(follow, None, every=every)
    traced = trained(follow, tmp_path, every=every)
    assert all(map(torch.equal, plain, traced))
    assert [each.code for each in find(tmp_path, averages.CHECK) if each.code == "average-follows-at-once"] == [
        "average-follows-at-once"
    ] * is_told
