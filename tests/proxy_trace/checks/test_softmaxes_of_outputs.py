"""A softmax over the samples of what a classifier put out is told, where its code is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks import batch_dimension
from tests.proxy_trace.checks.judged import find

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def over_samples(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    scores = model(x)
    return F.softmax(scores, dim=0)


def over_classes(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    scores = model(x)
    return F.softmax(scores, dim=1)


def squared(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(scores, F.one_hot(y, 3).float())


@pytest.mark.parametrize(
    ("predict", "shape", "loss", "is_told"),
    [
        pytest.param(over_samples, (6, 4), F.cross_entropy, True, id="over samples"),
        pytest.param(over_classes, (6, 4), F.cross_entropy, False, id="over classes"),
        pytest.param(over_samples, (4,), F.cross_entropy, False, id="one sample without a batch"),
        pytest.param(over_samples, (1, 4), F.cross_entropy, False, id="a batch of one sample"),
        pytest.param(over_samples, (6, 4), squared, False, id="no classifier"),
    ],
)
def test_a_softmax_of_outputs(
    tmp_path: Path,
    predict: Callable[[nn.Module, torch.Tensor], torch.Tensor],
    shape: tuple[int, ...],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    is_told: bool,
) -> None:
    model = Proxy.Proxy(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), recurse=True, logdir=str(tmp_path))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss(model(torch.randn(6, 4)), torch.arange(6) % 3).backward()
        optimizer.step()
    model.eval()
    predict(model, torch.randn(*shape))
    Proxy.flush()
    found = [(each.code, each.place.rpartition(":")[2]) for each in find(tmp_path, batch_dimension.CHECK)]
    line = over_samples.__code__.co_firstlineno + 2
    assert found == [("softmax-over-batch", str(line))] * is_told
