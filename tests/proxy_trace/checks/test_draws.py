"""Draws through which a gradient was to pass, and does not, are told where they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks import draws
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))


class Drawing(nn.Module):
    """Gives what it draws, with the mean and the deviation."""

    def __init__(self, draw: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.mean, self.spread, self.out = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(3, 4)
        self.draw = draw

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean, std = self.mean(x), F.softplus(self.spread(x))
        drawn = self.draw(mean, std)
        return self.out(drawn), drawn, mean, std


def elbo(model: Any) -> torch.Tensor:
    out, _, mean, std = model(X)
    return F.mse_loss(out, X) + (mean**2 + std**2 - std.log()).mean()  # type: ignore[no-any-return]


def policy(model: Any) -> torch.Tensor:
    value, action, mean, std = model(X)
    return -Normal(mean, std).log_prob(action).mean() + value.pow(2).mean()  # type: ignore[no-any-return]


def predicted(model: Any) -> torch.Tensor:
    out, _, mean, _ = model(X)
    return F.mse_loss(out, X) + F.mse_loss(mean, X[:, :3])


def reconstructed(model: Any) -> torch.Tensor:
    return F.mse_loss(model(X)[0], X)


def shifted(mean: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
    return mean + std * torch.randn_like(std)


@pytest.mark.parametrize(
    ("draw", "loss_of", "codes"),
    [
        pytest.param(torch.normal, elbo, ["draw-without-gradient"], id="a code with a divergence"),
        pytest.param(shifted, elbo, [], id="by hand"),
        pytest.param(lambda mean, std: Normal(mean, std).rsample(), elbo, [], id="rsample"),
        pytest.param(lambda mean, _: torch.normal(mean.detach(), 1.0), elbo, [], id="detached on purpose"),
        pytest.param(torch.normal, policy, [], id="an action with its density"),
        pytest.param(torch.normal, predicted, [], id="a prediction that is read again"),
        pytest.param(torch.normal, reconstructed, [], id="nothing else is trained by it"),
    ],
)
def test_a_gradient_is_to_pass_through_a_draw(
    draw: Callable[..., torch.Tensor], loss_of: Callable[[Any], torch.Tensor], codes: list[str], tmp_path: Path
) -> None:
    proxied = Proxy.Proxy(Drawing(draw), recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    optimizer = torch.optim.SGD(proxied.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        loss_of(proxied).backward()
        optimizer.step()
    Proxy.unproxy(proxied)
    assert [each.code for each in find(tmp_path) if each.code == "draw-without-gradient"] == codes


class Actor(nn.Module):
    """Draws actions, and gives the logarithms of their densities."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.spread = nn.Linear(4, 2), nn.Linear(4, 2)

    def drawn(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Actions without a gradient."""
        normal = Normal(self.mean(x), F.softplus(self.spread(x)) + 0.1)
        action = normal.sample()
        return action, normal.log_prob(action).sum(1)

    def passed(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Actions with a gradient."""
        normal = Normal(self.mean(x), F.softplus(self.spread(x)) + 0.1)
        action = normal.rsample()
        return action, normal.log_prob(action).sum(1)


@pytest.mark.parametrize(
    ("draw", "stepped", "is_told"),
    [
        pytest.param(Actor.drawn, "apart", True, id="drawn without a gradient"),
        pytest.param(Actor.passed, "apart", False, id="drawn with a gradient"),
        pytest.param(Actor.drawn, "both", False, id="the critic is stepped, too"),
        pytest.param(Actor.drawn, "both, and apart", False, id="the critic is stepped, too, and alone"),
        pytest.param(Actor.drawn, "together", False, id="one optimizer"),
        pytest.param(Actor.drawn, "never", False, id="the critic is not trained"),
    ],
)
def test_an_actor_is_to_be_trained_by_what_its_critic_says(
    draw: Callable[..., tuple[torch.Tensor, torch.Tensor]], stepped: str, is_told: bool, tmp_path: Path
) -> None:
    actor = Proxy.Proxy(Actor(), recurse=True, name="actor", logdir=tmp_path, log_level=Proxy.INFO)
    critic = Proxy.Proxy(nn.Linear(6, 1), recurse=True, name="critic", logdir=tmp_path, log_level=Proxy.INFO)
    trained = [*actor.parameters(), *(critic.parameters() if stepped == "together" else ())]
    of_actor, of_critic = torch.optim.Adam(trained), torch.optim.Adam(critic.parameters())
    for _ in range(18):
        if "apart" in stepped:
            of_critic.zero_grad()
            critic(torch.randn(6, 6)).pow(2).mean().backward()
            of_critic.step()
        of_actor.zero_grad()
        action, density = draw(actor, X)
        (0.1 * density - critic(torch.cat([X, action], 1)).squeeze(1)).mean().backward()
        of_actor.step()
        if "both" in stepped:
            of_critic.step()
    Proxy.unproxy(actor)
    Proxy.unproxy(critic)
    found = [each for each in find(tmp_path) if each.code == "draw-without-gradient"]
    line = Actor.drawn.__code__.co_firstlineno + 3
    assert [each.place.rpartition(":")[2] for each in found] == [str(line)] * is_told


def test_a_noise_that_is_to_be_predicted_is_told_where_it_is_drawn(tmp_path: Path, write_trace: WriteTrace) -> None:
    places = [events.Location(3, "train.py", 20, "main"), events.Location(4, "train.py", 21, "main")]
    seen = events.SourcePattern(2, what="noise-unadded", names=["noise"], made=3, other=4)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", *places, NET, seen), draws.CHECK)
    assert (finding.code, finding.name, finding.place) == ("noise-not-added", "noise", "train.py:20")
    assert finding.reason == "the model is to predict it, but its input, computed at train.py:21, has another noise"
