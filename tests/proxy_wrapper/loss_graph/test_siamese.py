"""Losses of siamese networks in which both sides of each comparison have a gradient are found, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from proxy_wrapper.loss_graph.graph import LossGraph
from proxy_wrapper.loss_graph.siamese import views_not_detached

if TYPE_CHECKING:
    from collections.abc import Callable

    Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

ENCODER = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6))
PREDICTOR = nn.Sequential(nn.Linear(6, 3), nn.ReLU(), nn.Linear(3, 6))
HEAD = nn.Linear(6, 2)
LABELS = torch.zeros(5, dtype=torch.long)


def distance(p: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    p, z = F.normalize(p, dim=-1), F.normalize(z, dim=-1)
    return 2 - 2 * (p * z).sum(dim=-1)


def similarity(p: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return -F.cosine_similarity(p, z, dim=-1).mean()


def found(loss: Loss) -> bool:
    z1, z2 = (ENCODER(torch.randn(5, 4)) for _ in range(2))
    return bool(list(views_not_detached(LossGraph(loss(PREDICTOR(z1), PREDICTOR(z2), z1, z2).grad_fn))))


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(lambda p1, p2, z1, z2: similarity(p1, z2) / 2 + similarity(p2, z1) / 2, id="cosines"),
        pytest.param(lambda p1, p2, z1, z2: (distance(p1, z2) + distance(p2, z1)).mean(), id="products"),
        pytest.param(lambda p1, p2, z1, z2: F.mse_loss(p1, z2) + F.mse_loss(z1, p2), id="errors"),
    ],
)
def test_views_that_predict_each_other(loss: Loss) -> None:
    assert found(loss)


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(lambda p1, p2, z1, z2: similarity(p1, z2.detach()) + similarity(p2, z1.detach()), id="detached"),
        pytest.param(lambda p1, p2, z1, z2: similarity(p1, z2), id="one way"),
        pytest.param(lambda p1, p2, z1, z2: similarity(z1, z2) + similarity(z2, z1), id="without a prediction"),
        pytest.param(lambda p1, p2, z1, z2: similarity(p1, z1) + similarity(p2, z2), id="of the same view"),
        pytest.param(lambda p1, p2, z1, z2: similarity(p1, p2) + similarity(p2, p1), id="of predictions"),
        pytest.param(
            lambda p1, p2, z1, z2: similarity(p1, z2) + similarity(p2, z1) + F.cross_entropy(HEAD(z1), LABELS),
            id="with a term that keeps samples apart",
        ),
        pytest.param(
            lambda p1, p2, z1, z2: similarity(p1, z2) + similarity(p2, z1) - 0.1 * z1.std(0).mean(), id="with a spread"
        ),
    ],
)
def test_other_losses(loss: Loss) -> None:
    assert not found(loss)
