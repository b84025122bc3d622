"""Formulas of losses that contradict themselves are told by graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable
from torch.distributions import Categorical, Normal

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks import formulas
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

Loss: TypeAlias = "Callable[[torch.Tensor], torch.Tensor]"

ACTIONS = torch.arange(6) % 3
RETURNS = torch.linspace(-1, 1, 6)


def judged(loss: Loss, tmp_path: Path) -> list[str]:
    """The codes of what the check finds where a layer is trained for two steps."""
    layer = Proxy.Proxy(nn.Linear(5, 4), recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    optimizer = torch.optim.SGD(layer.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        loss(layer(torch.randn(6, 5))).backward()
        optimizer.step()
    Proxy.unproxy(layer)
    return [each.code for each in find(tmp_path, formulas.CHECK)]


def test_a_ratio_to_itself_is_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    place = events.Location(3, "ppo.py", 20, "update")
    record = events.SourcePattern(1, what="ratio-of-one", names=["(logp - logp.detach()).exp()"], made=3)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", place, NET, record), formulas.CHECK)
    assert (finding.code, finding.place) == ("ratio-to-itself", "ppo.py:20")
    assert finding.reason == "(logp - logp.detach()).exp() is always 1"


@pytest.mark.parametrize(
    ("what", "names", "code", "reason"),
    [
        ("ends-unread", ["r + g * q", "dones"], "episode-end-ignored", "r + g * q has no part in which dones is read"),
        ("returns-backwards", ["gs"], "returns-misordered", "gs begins with the return of the last step"),
        ("returns-forwards", ["gs"], "returns-misordered", "gs adds up the rewards before each step"),
        (
            "loss-unmasked",
            ["data.y"],
            "loss-over-held-out-nodes",
            "data.y are the labels of all nodes, some of which are held out",
        ),
        ("noise-of-one-step", ["alphas"], "noise-of-one-step", "alphas is the level of one step, not of all so far"),
        ("loss-overwritten", ["loss"], "loss-overwritten", "loss is assigned again before anything reads it"),
    ],
)
def test_what_the_source_shows_is_told(
    tmp_path: Path, write_trace: WriteTrace, what: str, names: list[str], code: str, reason: str
) -> None:
    place = events.Location(3, "dqn.py", 20, "update")
    record = events.SourcePattern(1, what=what, names=names, made=3)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", place, NET, record), formulas.CHECK)
    assert (finding.code, finding.place, finding.reason) == (code, "dqn.py:20", reason)


def cut(out: torch.Tensor) -> torch.Tensor:
    """A loss with a penalty that is a plain number."""
    penalty = out.pow(2).mean().item()
    return F.cross_entropy(out, ACTIONS) + 0.1 * penalty


@pytest.mark.parametrize("loss", [cut, lambda out: cut(out) - 0.1])
def test_a_term_that_is_cut_off_is_told(loss: Loss, tmp_path: Path) -> None:
    assert judged(loss, tmp_path) == ["loss-term-cut-off"] * (loss is cut)


def triplet(unit: torch.Tensor) -> torch.Tensor:
    """A triplet loss of rows."""
    anchor, positive, negative = unit.chunk(3)
    return F.triplet_margin_loss(anchor, positive, negative)


def contrast(out: torch.Tensor) -> torch.Tensor:
    """A contrastive loss of rows that are divided by the norm of all."""
    unit = out / out.norm()
    return F.cross_entropy((unit @ unit.t() / 0.1).masked_fill(torch.eye(6, dtype=torch.bool), -1e9), ACTIONS)


def similar(unit: torch.Tensor) -> torch.Tensor:
    """A softmax over the products of rows and of others."""
    other = unit[torch.arange(len(unit)).flip(0)]
    return F.cross_entropy(unit @ other.t() / 0.1, torch.arange(len(unit)))


def similar_to_rows(unit: torch.Tensor) -> torch.Tensor:
    """A softmax over the scaled products of rows and of others that have a length of 1 each."""
    other = F.normalize(unit.roll(1, 0) + 1, dim=1)
    return F.cross_entropy(unit.sum().exp() * unit @ other.t(), torch.arange(len(unit)))


def classified(out: torch.Tensor) -> torch.Tensor:
    """A cosine classifier: the weights of each class lie in a column."""
    weight = F.normalize(torch.randn(4, 3, requires_grad=True), dim=0)
    return F.cross_entropy(5 * F.normalize(out, dim=1) @ weight, ACTIONS)


def distances(out: torch.Tensor) -> torch.Tensor:
    """A loss of distances between rows that are divided by the root of the sum of all squares."""
    unit = out / out.pow(2).sum().sqrt()
    return F.relu((unit[::2] - unit[1::2]).pow(2).sum(1) - RETURNS[:3]).mean()


def gram(out: torch.Tensor) -> torch.Tensor:
    """The distance between two matrices, each with a norm of 1."""
    first, second = out.t() @ out, out.flip(0).t() @ RETURNS[:, None] @ out[:1]
    return (first / first.norm() - second / second.norm()).square().sum()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("loss", "is_told"),
    [
        pytest.param(lambda out: triplet(out / out.norm()), True, id="triplets"),
        pytest.param(contrast, True, id="contrast"),
        pytest.param(distances, True, id="distances by hand"),
        pytest.param(lambda out: triplet(F.normalize(out, dim=1)), False, id="of each row"),
        pytest.param(lambda out: triplet(out / out.norm(dim=1, keepdim=True)), False, id="kept"),
        pytest.param(lambda out: similar(F.normalize(out, dim=0)), True, id="similarities of rows"),
        pytest.param(lambda out: similar(F.normalize(out, dim=1)), False, id="similarities of rows of length 1"),
        pytest.param(lambda out: similar_to_rows(F.normalize(out, dim=0)), True, id="one of two"),
        pytest.param(lambda out: similar_to_rows(F.normalize(out, dim=1)), False, id="none of two"),
        pytest.param(lambda out: similar_to_rows(out), False, id="one of two has any length"),
        pytest.param(classified, False, id="weights of classes in columns"),
        pytest.param(lambda out: similar(F.normalize(out, dim=0).t()), False, id="similarities of columns"),
        pytest.param(
            lambda out: similar(F.normalize(out - out.mean(0), dim=0)), False, id="similarities of standardised columns"
        ),
        pytest.param(gram, False, id="of whole matrices"),
        pytest.param(lambda out: (out / out.norm() * 6 + 1).pow(2).sum(1).mean(), False, id="power of a signal"),
    ],
)
def test_rows_that_are_divided_by_the_norm_of_all(tmp_path: Path, loss: Loss, is_told: bool) -> None:
    assert judged(loss, tmp_path) == ["normalised-by-batch"] * is_told


def sampled(scale: Loss, divergence: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Loss:
    """The loss of a variational autoencoder."""

    def loss(out: torch.Tensor) -> torch.Tensor:
        mean, log = out.chunk(2, dim=1)
        sample = mean + torch.randn(6, 2) * scale(log)
        return (sample - 1).pow(2).mean() + divergence(mean, log)

    return loss


def usual(mean: torch.Tensor, log: torch.Tensor) -> torch.Tensor:
    """The divergence where `log` is that of a variance."""
    return -0.5 * (1 + log - mean.pow(2) - log.exp()).sum(1).mean()


def in_place(mean: torch.Tensor, log: torch.Tensor) -> torch.Tensor:
    """The same, as it is written with methods that work in place."""
    return mean.pow(2).add_(log.exp()).mul_(-1).add_(1).add_(log).sum().mul_(-0.5)


def halves(mean: torch.Tensor, log: torch.Tensor) -> torch.Tensor:
    """The same, with a factor at each term."""
    return (0.5 * (mean * mean) + 0.5 * torch.exp(log) - log / 2 - 0.5).sum()


def of_deviation(mean: torch.Tensor, log: torch.Tensor) -> torch.Tensor:
    """The divergence where `log` is that of a standard deviation."""
    return -0.5 * (1 + 2 * log - mean.pow(2) - (2 * log).exp()).sum(1).mean()


def of_deviation_squared(mean: torch.Tensor, log: torch.Tensor) -> torch.Tensor:
    """The same, with a square."""
    return (0.5 * (mean**2 + log.exp() ** 2 - 1) - log).sum(1).mean()


def of_half(mean: torch.Tensor, log: torch.Tensor) -> torch.Tensor:
    """A divergence that takes the standard deviation for the variance."""
    return -0.5 * (1 + log - mean.pow(2) - (0.5 * log).exp()).sum(1).mean()


@pytest.mark.parametrize(
    ("scale", "divergence", "is_told"),
    [
        pytest.param(torch.exp, usual, True, id="usual"),
        pytest.param(torch.exp, in_place, True, id="in place"),
        pytest.param(torch.exp, halves, True, id="halves"),
        pytest.param(lambda log: (0.5 * log).exp(), of_half, True, id="half in the divergence"),
        pytest.param(lambda log: (0.5 * log).exp(), usual, False, id="right"),
        pytest.param(lambda log: (log / 2).exp(), in_place, False, id="right in place"),
        pytest.param(lambda log: (log * 0.5).exp(), halves, False, id="right with halves"),
        pytest.param(torch.exp, of_deviation, False, id="logarithm of the deviation"),
        pytest.param(torch.exp, of_deviation_squared, False, id="logarithm of the deviation, squared"),
        pytest.param(lambda log: log.exp().sqrt(), usual, False, id="root"),
    ],
)
def test_noise_that_is_scaled_by_the_variance(
    tmp_path: Path, scale: Loss, divergence: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], is_told: bool
) -> None:
    assert judged(sampled(scale, divergence), tmp_path) == ["scale-is-variance"] * is_told


def of_autoencoder(
    reconstruction: Loss,
    divergence: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    total: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = torch.add,
) -> Loss:
    """The loss of a variational autoencoder that makes 40 numbers of a sample of two."""
    spread = torch.linspace(-1, 1, 80).view(2, 40)

    def loss(out: torch.Tensor) -> torch.Tensor:
        mean, log = out.chunk(2, dim=1)
        sample = mean + torch.randn(6, 2) * (0.5 * log).exp()
        return total(reconstruction(sample @ spread), divergence(mean, log))

    return loss


WANTED = torch.linspace(0, 1, 240).view(6, 40)


def of_logarithm(mean: torch.Tensor, log: torch.Tensor) -> torch.Tensor:
    """The divergence where half of `log` is the logarithm of the deviation."""
    half = log / 2
    return (0.5 * (mean**2 + (2 * half).exp() - 1) - half).sum(1).mean()


def summed(out: torch.Tensor) -> torch.Tensor:
    """The squared error, summed over a sample."""
    return F.mse_loss(out, WANTED, reduction="sum") / 6


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        pytest.param(of_autoencoder(lambda out: F.mse_loss(out, WANTED), usual), 40, id="mse"),
        pytest.param(of_autoencoder(lambda out: F.mse_loss(out, WANTED), in_place), 240, id="summed over the batch"),
        pytest.param(of_autoencoder(lambda out: (out - WANTED).pow(2).mean(), halves), 240, id="by hand"),
        pytest.param(of_autoencoder(lambda out: 0.5 * F.mse_loss(out, WANTED), usual), 80, id="half"),
        pytest.param(
            of_autoencoder(lambda out: F.mse_loss(out, WANTED), usual, lambda first, second: (first + second) * 100),
            40,
            id="scaled as a whole",
        ),
        pytest.param(
            of_autoencoder(lambda out: F.binary_cross_entropy_with_logits(out, WANTED), usual), 40, id="logits"
        ),
        pytest.param(
            of_autoencoder(lambda out: F.mse_loss(out, WANTED, reduction="none").mean(1).mean(), usual), 40, id="twice"
        ),
        pytest.param(of_autoencoder(summed, usual), 0, id="both summed"),
        pytest.param(of_autoencoder(lambda out: F.mse_loss(out, WANTED) * 40, usual), 0, id="made up for"),
        pytest.param(
            of_autoencoder(lambda out: F.mse_loss(out, WANTED), lambda mean, log: 0.7 * usual(mean, log)),
            0,
            id="chosen factor",
        ),
        pytest.param(
            of_autoencoder(lambda out: F.mse_loss(out, WANTED), lambda mean, log: 0.025 * usual(mean, log)),
            0,
            id="factor of the divergence",
        ),
        pytest.param(
            of_autoencoder(lambda out: F.mse_loss(out, WANTED), usual, lambda first, second: first + 0 * second),
            0,
            id="not yet",
        ),
        pytest.param(
            of_autoencoder(lambda out: F.mse_loss(out, WANTED) + out.square().sum(), usual), 0, id="other term"
        ),
        pytest.param(of_autoencoder(lambda out: F.mse_loss(out[:, :1], WANTED[:, :1]), usual), 0, id="few elements"),
        pytest.param(of_autoencoder(lambda out: F.mse_loss(out, WANTED), of_logarithm), 40, id="of the deviation"),
    ],
)
def test_divergences_that_are_summed_where_the_reconstruction_is_averaged(
    tmp_path: Path, loss: Loss, told: int
) -> None:
    assert judged(loss, tmp_path) == ["divergence-outweighs"] * bool(told)
    reasons = [each.reason for each in find(tmp_path, formulas.CHECK)]
    assert all(f"counts {told} times" in each for each in reasons)


def discrete(out: torch.Tensor) -> torch.Tensor:
    """The log-probabilities of actions among three."""
    return Categorical(logits=out[:, :3]).log_prob(ACTIONS)  # type: ignore[no-any-return]


def of_probabilities(out: torch.Tensor) -> torch.Tensor:
    """The same, of a distribution that is given probabilities."""
    return Categorical(out[:, :3].softmax(1)).log_prob(ACTIONS)  # type: ignore[no-any-return]


def gathered(out: torch.Tensor) -> torch.Tensor:
    """The same, without a distribution."""
    return out[:, :3].log_softmax(1).gather(1, ACTIONS[:, None]).squeeze(1)


def continuous(out: torch.Tensor) -> torch.Tensor:
    """The log-probabilities of actions that are numbers."""
    return Normal(out[:, :3], 1.0).log_prob(torch.zeros(6, 3)).sum(1)  # type: ignore[no-any-return]


def actor_critic(log_probabilities: Loss, *, is_detached: bool, critic: Loss, is_standardised: bool = False) -> Loss:
    """The loss of an actor and a critic; `critic` makes that of the critic from its values."""

    def loss(out: torch.Tensor) -> torch.Tensor:
        values = out[:, 3]
        advantage = RETURNS - (values.detach() if is_detached else values)
        if is_standardised:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        return -(log_probabilities(out) * advantage).mean() + critic(values)

    return loss


def generalised(*, is_detached: bool, repeats: int = 1) -> Loss:
    """The loss of an actor and a critic with generalised advantage estimation, step by step."""

    def loss(out: torch.Tensor) -> torch.Tensor:
        values = list(out[:, 3]) * repeats
        given = [value.detach() for value in values] if is_detached else values
        advantages: list[torch.Tensor] = []
        advantage, following = torch.zeros(()), torch.zeros(())
        for reward, value in zip(reversed(RETURNS.repeat(repeats)), reversed(given), strict=True):
            advantage = reward + 0.9 * following - value + 0.8 * advantage
            following = value
            advantages.insert(0, advantage)
        weights, stacked = torch.stack(advantages), torch.stack(values)
        wanted = weights.detach() + stacked.detach()
        chosen = gathered(out)[torch.arange(6 * repeats) % 6]
        return -(chosen * weights).mean() + 0.5 * (wanted - stacked).pow(2).mean()

    return loss


@pytest.mark.parametrize(
    ("loss", "is_told"),
    [
        pytest.param(generalised(is_detached=False), True, id="generalised-not detached"),
        pytest.param(generalised(is_detached=False, repeats=40), True, id="generalised-over many steps"),
        pytest.param(generalised(is_detached=True), False, id="generalised-detached"),
    ]
    + [
        pytest.param(
            actor_critic(log, is_detached=is_detached, critic=critic, is_standardised=is_standardised),
            not is_detached,
            id=f"{log.__name__}-{name}-{'detached' if is_detached else 'not detached'}",
        )
        for log, name, critic, is_standardised in (
            (discrete, "square", lambda values: (RETURNS - values).pow(2).mean(), False),
            (of_probabilities, "mse", lambda values: F.mse_loss(values, RETURNS), False),
            (gathered, "huber", lambda values: F.smooth_l1_loss(values, RETURNS), False),
            (continuous, "standardised", lambda values: 0.5 * F.mse_loss(values, RETURNS), True),
        )
        for is_detached in (False, True)
    ]
    + [
        pytest.param(
            lambda out: -(gathered(out) * (1 - out[:, 3].sigmoid())).mean() + out[:, 3].pow(2).mean(),
            False,
            id="weights that are learnt",
        ),
        pytest.param(
            lambda out: (out[:, :3].softmax(1) * (out[:, :3].log_softmax(1) - out[:, 3:])).sum(1).mean(),
            False,
            id="expectation",
        ),
    ],
)
def test_advantages_that_have_a_gradient(tmp_path: Path, loss: Loss, is_told: bool) -> None:
    assert judged(loss, tmp_path) == ["advantage-not-detached"] * is_told


class Scaled(torch.autograd.Function):
    """Three times its input. `backward` is given by each subclass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return 3 * x


class Ignoring(Scaled):
    """Ignores the gradient of the result."""

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return torch.full_like(x, 3)


class Reading(Scaled):
    """Multiplies by it."""

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return torch.full_like(x, 3) * upstream


class Once(Scaled):
    """Likewise, behind a decorator of PyTorch."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstreams: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return torch.full_like(x, 3) * upstreams[0]


class Undefined(Scaled):
    """Has no gradient."""

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> None:
        return None


def applied(function: Any, x: torch.Tensor) -> torch.Tensor:
    return function.apply(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("loss", "is_told"),
    [
        pytest.param(lambda out: applied(Ignoring, out).mean(), True, id="ignores"),
        pytest.param(lambda out: applied(Ignoring, out.mean()), False, id="a single number"),
        pytest.param(lambda out: applied(Reading, out).mean(), False, id="reads"),
        pytest.param(lambda out: applied(Once, out).mean(), False, id="reads behind a decorator"),
        pytest.param(lambda out: (applied(Undefined, out) + out).mean(), False, id="has none"),
    ],
)
def test_functions_that_ignore_the_gradient_of_their_result(tmp_path: Path, loss: Loss, is_told: bool) -> None:
    assert judged(loss, tmp_path) == ["backward-ignores-gradient"] * is_told


MASK = (torch.arange(24) % 3 == 0).float().reshape(6, 4)


def dice(given: torch.Tensor, mask: torch.Tensor = MASK) -> torch.Tensor:
    """A Dice loss of what is given, of all samples together."""
    return 1 - (2 * (given * mask).sum() + 1) / (given.sum() + mask.sum() + 1)


def dice_of_samples(given: torch.Tensor) -> torch.Tensor:
    """A Dice loss of what is given, of each sample, with squares below."""
    return 1 - (2 * (MASK * given).sum(1) / (given.pow(2).sum(1) + MASK.sum(1) + 1e-6)).mean()


@pytest.mark.parametrize(
    ("loss", "codes"),
    [
        pytest.param(dice, ["dice-of-logits"], id="of the output of a layer"),
        pytest.param(lambda out: dice(out.view(-1), MASK.view(-1)), ["dice-of-logits"], id="of a view of it"),
        pytest.param(dice_of_samples, ["dice-of-logits"], id="of each sample"),
        pytest.param(lambda out: dice(out.sigmoid()), [], id="of probabilities"),
        pytest.param(lambda out: dice_of_samples(out.softmax(1)), [], id="of probabilities of each sample"),
        pytest.param(lambda out: dice(out, MASK * 0.7), [], id="a weighted mean"),
        pytest.param(lambda out: 1 - (out * MASK).sum() / MASK.sum(), [], id="a mean over a mask"),
        pytest.param(lambda out: (out * MASK).sum() / out.exp().sum(), [], id="divided by something else"),
    ],
)
def test_a_dice_coefficient_is_of_probabilities(loss: Loss, codes: list[str], tmp_path: Path) -> None:
    assert judged(loss, tmp_path) == codes
