"""A decayed rate that an optimizer gets with a loaded state is recorded at its first step; what is meant is not."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import LoadedRate

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()


def saved(model: nn.Module, make: Callable[..., torch.optim.Optimizer], rate: float) -> dict[str, Any]:
    """The state of an optimizer that has stepped with a rate."""
    optimizer = make(model.parameters(), lr=rate)
    step(model, optimizer)
    return copy.deepcopy(optimizer.state_dict())


def momentum(parameters: Any, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


@pytest.mark.parametrize("make", [torch.optim.Adam, momentum])
def test_a_loaded_rate_is_recorded_once(make: Callable[..., Any], logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), logdir=logdir)
    state = saved(model, make, 1e-6)
    optimizer = make(model.parameters(), lr=0.01)
    optimizer.load_state_dict(state)
    for _ in range(2):
        step(model, optimizer)
    (event,) = (each for each in seen.events if isinstance(each, LoadedRate))
    assert (event.optimizer_id, event.given_rate, event.rate, event.step) == (2, 0.01, 1e-6, 1)


def scheduled(optimizer: torch.optim.Optimizer) -> object:
    return StepLR(optimizer, 1)


def assigned(optimizer: torch.optim.Optimizer) -> None:
    """Sets a rate, in code that the test calls."""
    for group in optimizer.param_groups:
        group["lr"] = 1e-6


@pytest.mark.parametrize(
    ("rate", "change"),
    [
        pytest.param(1e-3, None, id="a rate that is not much smaller"),
        pytest.param(1e-6, scheduled, id="with a scheduler"),
    ],
)
def test_a_rate_that_may_be_meant_is_not_recorded(
    rate: float, change: Callable[[torch.optim.Optimizer], object] | None, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), logdir=logdir)
    state = saved(model, torch.optim.Adam, rate)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer.load_state_dict(state)
    kept = None if change is None else change(optimizer)
    step(model, optimizer)
    del kept
    assert not [each for each in seen.events if isinstance(each, LoadedRate)]


def test_a_program_that_assigns_rates_is_not_judged(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), logdir=logdir)
    state = saved(model, torch.optim.Adam, 1e-6)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer.load_state_dict(state)
    assigned(optimizer)
    step(model, optimizer)
    assert not [each for each in seen.events if isinstance(each, LoadedRate)]


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.Adagrad])
def test_a_rate_that_was_set_before_the_first_step_was_not_loaded(
    make: Callable[..., Any], logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), logdir=logdir)
    optimizer = make(model.parameters(), lr=0.01)
    optimizer.param_groups[0].update(lr=1e-6)
    step(model, optimizer)
    assert not [each for each in seen.events if isinstance(each, LoadedRate)]
