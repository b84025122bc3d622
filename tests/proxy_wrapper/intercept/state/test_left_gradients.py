"""Steps of adversarial networks with gradients that the opponent's loss has left are recorded, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as entropy

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Location, StatePattern
from proxy_wrapper.intercept.state import left_gradients

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_wrapper.writing.observers.memory import MemoryObserver

ONES, ZEROS = torch.ones(4, 1), torch.zeros(4, 1)


class Pair:
    """Two networks, one behind the other, each with an optimizer."""

    def __init__(self, logdir: str) -> None:
        nets = nn.ModuleDict({"g": nn.Linear(3, 5), "d": nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))})
        Proxy.Proxy(nets, name="nets", recurse=True, logdir=logdir)
        self.g, self.d = nets["g"], nets["d"]
        self.of_g, self.of_d = (torch.optim.SGD(net.parameters(), 0.01) for net in (self.g, self.d))
        self.fake = torch.zeros(4, 5)

    def clear(self) -> None:
        self.of_g.zero_grad()
        self.of_d.zero_grad()

    def generate(self) -> torch.Tensor:
        self.fake = self.g(torch.randn(4, 3))
        scores: torch.Tensor = self.d(self.fake)
        return scores

    def critic_cleared_first(self) -> None:
        self.clear()
        entropy(self.generate(), ONES).backward()
        self.of_g.step()
        (entropy(self.d(torch.randn(4, 5)), ONES) + entropy(self.d(self.fake.detach()), ZEROS)).backward()
        self.of_d.step()

    def critic_in_two_passes(self) -> None:
        self.clear()
        entropy(self.generate(), ONES).backward()
        self.of_g.step()
        entropy(self.d(torch.randn(4, 5)), ONES).backward()
        entropy(self.d(self.fake.detach()), ZEROS).backward()
        self.of_d.step()

    def of_wasserstein(self) -> None:
        self.clear()
        (-self.generate().mean()).backward()
        self.of_g.step()
        (self.d(self.fake.detach()).mean() - self.d(torch.randn(4, 5)).mean()).backward()
        self.of_d.step()

    def generator_not_detached(self) -> None:
        self.clear()
        (entropy(self.d(torch.randn(4, 5)), ONES) + entropy(self.generate(), ZEROS)).backward()
        self.of_d.step()
        entropy(self.generate(), ONES).backward()
        self.of_g.step()

    def critic_of_actor(self) -> None:
        self.clear()
        (-self.generate().mean()).backward()
        self.of_g.step()
        (self.d(torch.randn(4, 5)).squeeze(1) - torch.randn(4)).square().mean().backward()
        self.of_d.step()

    def each_cleared(self) -> None:
        self.of_g.zero_grad()
        entropy(self.generate(), ONES).backward()
        self.of_g.step()
        self.of_d.zero_grad()
        (entropy(self.d(torch.randn(4, 5)), ONES) + entropy(self.d(self.fake.detach()), ZEROS)).backward()
        self.of_d.step()

    def critic_frozen(self) -> None:
        self.clear()
        self.d.requires_grad_(False)
        entropy(self.generate(), ONES).backward()
        self.of_g.step()
        self.d.requires_grad_(True)
        entropy(self.d(torch.randn(4, 5)), ONES).backward()
        entropy(self.d(self.fake.detach()), ZEROS).backward()
        self.of_d.step()

    def shared_by_two_losses(self) -> None:
        self.clear()
        (self.generate() - 1).square().mean().backward()
        self.of_d.step()
        (self.generate() + self.fake.sum()).abs().mean().backward()
        self.of_g.step()

    def head_of_two_domains(self) -> None:
        self.clear()
        (self.generate() - 1).square().mean().backward()
        self.of_g.step()
        (self.d(torch.randn(4, 5)) - 1).square().mean().backward()
        self.of_d.step()

    def one_loss(self) -> None:
        self.clear()
        entropy(self.generate(), ONES).backward()
        self.of_d.step()
        self.of_g.step()


def recorded(iterate: Callable[[Pair], None], logdir: str, seen: MemoryObserver) -> list[int]:
    """The lines, within `iterate`, of the first passes of the recorded patterns."""
    pair = Pair(logdir)
    for _ in range(9):
        iterate(pair)
    lines = {event.id: event.line for event in seen.events if isinstance(event, Location)}
    found = [each for each in seen.events if isinstance(each, StatePattern) and each.what == "gradient-left"]
    return [lines[each.made] - iterate.__code__.co_firstlineno for each in found]


@pytest.mark.parametrize(
    "iterate",
    [
        Pair.critic_cleared_first,
        Pair.critic_in_two_passes,
        Pair.of_wasserstein,
        Pair.generator_not_detached,
        Pair.critic_of_actor,
    ],
)
def test_gradients_of_an_opponent(iterate: Callable[[Pair], None], logdir: str, seen: MemoryObserver) -> None:
    assert recorded(iterate, logdir, seen) == [2]


@pytest.mark.parametrize(
    "iterate",
    [Pair.each_cleared, Pair.critic_frozen, Pair.shared_by_two_losses, Pair.head_of_two_domains, Pair.one_loss],
)
def test_other_gradients(iterate: Callable[[Pair], None], logdir: str, seen: MemoryObserver) -> None:
    assert not recorded(iterate, logdir, seen)


def test_graphs_are_read_until_it_is_decided(
    logdir: str, seen: MemoryObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    given = left_gradients.LeftGradients._given

    def note(self: left_gradients.LeftGradients, roots: Sequence[torch.Tensor]) -> object:
        read.append(roots)
        return given(self, roots)

    monkeypatch.setattr(left_gradients, "_MOST_STEPS", 6)
    monkeypatch.setattr(left_gradients.LeftGradients, "_given", note)
    pair = Pair(logdir)
    counts = []
    for _ in range(9):
        read.clear()
        pair.critic_cleared_first()
        counts.append(len(read))
    assert counts == [0, 0, 2, 2, 2, 2, 2, 0, 0]
