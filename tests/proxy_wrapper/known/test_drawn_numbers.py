"""Modules that draw random numbers are told by the states of the generators, and these stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.known.drawn_numbers import DrawnNumbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.known.entries import ModuleEntry


class Noise(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn(2)


@pytest.fixture
def entries(logdir: str) -> Iterator[list[ModuleEntry]]:
    """Those of a model in evaluation mode, and of its two modules."""
    model = Proxy.Proxy(nn.Sequential(Noise(), nn.Linear(2, 2)), recurse=True, logdir=logdir).eval()
    registry: Any = Proxy._installed.get().registry
    yield [registry.module_entry(module) for module in model.modules()]
    assert model is not None  # Entries do not keep modules alive.


def call(draws: DrawnNumbers, *modules: ModuleEntry, drawing: ModuleEntry | None = None) -> None:
    """Modules are called, each by the one before it, and one of them draws random numbers."""
    for each in modules:
        draws.enter(each)
        if each is drawing:
            torch.randn(2)
    for each in reversed(modules):
        draws.leave(each)


def test_the_module_that_draws_is_told_and_none_around_it(entries: list[ModuleEntry]) -> None:
    model, noise, linear = entries
    draws = DrawnNumbers()
    call(draws, model, noise, drawing=noise)
    call(draws, model, linear)
    call(draws, model, noise, drawing=noise)
    assert draws.drawn == [noise]


def test_what_a_module_draws_behind_a_call_is_its_own(entries: list[ModuleEntry]) -> None:
    model, noise, _ = entries
    draws = DrawnNumbers()
    draws.enter(model)
    call(draws, noise)
    torch.randn(2)
    draws.leave(model)
    assert draws.drawn == [model]


def test_what_is_drawn_between_calls_is_of_no_module(entries: list[ModuleEntry]) -> None:
    draws = DrawnNumbers()
    call(draws, entries[0])
    torch.randn(2)
    call(draws, entries[0])
    assert draws.drawn == []


@pytest.mark.parametrize("training", [0, 1], ids=["the module around it", "the module"])
def test_what_is_drawn_in_training_mode_is_meant(entries: list[ModuleEntry], training: int) -> None:
    module: Any = entries[training].module()
    module.training = True
    draws = DrawnNumbers()
    call(draws, *entries[:2], drawing=entries[1])
    assert draws.drawn == []


def test_a_call_that_an_error_has_left_ends_with_the_one_around_it(entries: list[ModuleEntry]) -> None:
    model, noise, linear = entries
    draws = DrawnNumbers()
    draws.enter(model)
    draws.enter(noise)
    draws.leave(model)
    call(draws, linear, drawing=linear)
    assert draws.drawn == [linear]


def test_the_states_of_the_generators_stay_as_they_are(entries: list[ModuleEntry]) -> None:
    before = torch.get_rng_state()
    call(DrawnNumbers(), *entries)
    assert torch.equal(torch.get_rng_state(), before)
