"""The sign of log-probabilities in a loss is read from its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Categorical, Normal

from proxy_wrapper.loss_graph.graph import LossGraph
from proxy_wrapper.loss_graph.policies import LOWERED, lowered_probabilities

if TYPE_CHECKING:
    from collections.abc import Callable

Loss: TypeAlias = "Callable[[torch.Tensor], torch.Tensor]"

ACTIONS = torch.arange(6) % 3
RETURNS = torch.linspace(-1, 1, 6)
OLD = torch.full((6,), -1.0)


def chosen(out: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(Categorical(logits=out).log_prob(ACTIONS))


def density(out: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(Normal(out[:, 0], out[:, 1].exp()).log_prob(RETURNS))


def ratio(out: torch.Tensor) -> torch.Tensor:
    return (chosen(out) - OLD).exp()


def clipped(out: torch.Tensor) -> torch.Tensor:
    return torch.min(ratio(out) * RETURNS, ratio(out).clamp(0.8, 1.2) * RETURNS)


def one_by_one(out: torch.Tensor) -> list[torch.Tensor]:
    return [
        Categorical(logits=row).log_prob(ACTIONS[0]) * weight
        for row, weight in zip(out.split(1), RETURNS.tolist(), strict=True)
    ]


def entropy(out: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(Categorical(logits=out).entropy().mean())


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(lambda out: (chosen(out) * RETURNS).mean(), id="at once"),
        pytest.param(lambda out: torch.stack(one_by_one(out)).sum(), id="in a stack"),
        pytest.param(lambda out: sum(one_by_one(out), torch.zeros(())), id="in a sum"),
        pytest.param(lambda out: 0.5 * (density(out) * RETURNS).mean() - 0.01 * entropy(out), id="with an entropy"),
        pytest.param(lambda out: clipped(out).mean() + F.mse_loss(out[:, 0], RETURNS), id="of clipped ratios"),
        pytest.param(lambda out: -(-chosen(out) * RETURNS).sum(), id="negated twice"),
    ],
)
def test_a_plus_sign_is_seen(loss: Loss) -> None:
    assert patterns(loss) == [LOWERED]


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(lambda out: -(chosen(out) * RETURNS).mean(), id="negated"),
        pytest.param(lambda out: (-chosen(out) * RETURNS).mean(), id="negated before"),
        pytest.param(lambda out: (-chosen(out))[1] * 2.0, id="negated before one is taken"),
        pytest.param(lambda out: -(Categorical(logits=-out).log_prob(ACTIONS) * RETURNS).sum(), id="of negated scores"),
        pytest.param(lambda out: entropy(out) - (density(out) * RETURNS).mean(), id="subtracted"),
        pytest.param(lambda out: 1 - (chosen(out) * RETURNS).mean(), id="subtracted from a number"),
        pytest.param(lambda out: -clipped(out).mean(), id="clipped"),
        pytest.param(lambda out: (OLD - chosen(out)).exp().mul(RETURNS).mean(), id="the inverse ratio"),
        pytest.param(lambda out: 0.1 * chosen(out).mean() - ratio(out).mul(RETURNS).mean(), id="with a penalty"),
        pytest.param(lambda out: F.cross_entropy(out, ACTIONS), id="a loss of classes"),
        pytest.param(lambda out: (out.softmax(1) * out.log_softmax(1)).sum(), id="a negative entropy"),
    ],
)
def test_a_minus_sign_is_none(loss: Loss) -> None:
    assert patterns(loss) == []


def patterns(loss: Loss) -> list[str]:
    value = loss(torch.nn.Linear(5, 3)(torch.ones(6, 5)))
    return [pattern.what for pattern in lowered_probabilities(LossGraph(value.grad_fn))]
