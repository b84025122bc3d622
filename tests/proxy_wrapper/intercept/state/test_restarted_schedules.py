"""A schedule that begins anew when training resumes is recorded at the first step; what may be meant is not."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, SequentialLR, StepLR

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import ScheduleRestart

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver

State = dict[str, Any]


def decayed(optimizer: torch.optim.Optimizer, last_epoch: int = -1) -> LambdaLR:
    return LambdaLR(optimizer, lambda epoch: 0.5**epoch, last_epoch)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, scheduler: Any, start: int, end: int) -> None:
    for _ in range(start, end):
        optimizer.zero_grad()
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
        scheduler.step()


def new(optimizer: torch.optim.Optimizer, _: State, __: State) -> Any:
    return decayed(optimizer)


def warmed_up(optimizer: torch.optim.Optimizer, _: State, __: State) -> Any:
    parts = [LinearLR(optimizer, 0.1, total_iters=2), CosineAnnealingLR(optimizer, 9)]
    return SequentialLR(optimizer, parts, milestones=[2])


def counted_on(optimizer: torch.optim.Optimizer, _: State, __: State) -> Any:
    return decayed(optimizer, 2)


def loaded(optimizer: torch.optim.Optimizer, _: State, state: State) -> Any:
    scheduler = decayed(optimizer)
    scheduler.load_state_dict(state)
    return scheduler


def loaded_again(optimizer: torch.optim.Optimizer, state: State, _: State) -> Any:
    scheduler = decayed(optimizer)
    optimizer.load_state_dict(state)
    return scheduler


def chained(optimizer: torch.optim.Optimizer, _: State, __: State) -> Any:
    return StepLR(optimizer, 5)


def restarted(
    make: Callable[[torch.optim.Optimizer, State, State], Any], start: int, seen: MemoryObserver, logdir: str
) -> list[ScheduleRestart]:
    """What is recorded of a program that trains three epochs, and resumes with what `make` creates."""
    model = Proxy.Proxy(nn.Linear(4, 2), logdir=logdir)
    first = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = decayed(first)
    train(model, first, scheduler, 0, 3)
    saved = copy.deepcopy((first.state_dict(), scheduler.state_dict()))
    second = torch.optim.SGD(model.parameters(), lr=0.1)
    second.load_state_dict(saved[0])
    train(model, second, make(second, *saved), start, start + 2)
    return [event for event in seen.events if isinstance(event, ScheduleRestart)]


@pytest.mark.parametrize(("make", "rate"), [(new, 0.1), (warmed_up, 0.01)])
def test_a_new_schedule_of_a_loaded_optimizer_is_recorded_once(
    make: Callable[..., Any], rate: float, logdir: str, seen: MemoryObserver
) -> None:
    (event,) = restarted(make, 3, seen, logdir)
    assert (event.loaded_rate, event.start, event.step) == (0.0125, 3, 3)
    assert event.rate == pytest.approx(rate)


@pytest.mark.parametrize("make", [counted_on, loaded, loaded_again, chained])
def test_a_schedule_that_goes_on_is_not_recorded(make: Callable[..., Any], logdir: str, seen: MemoryObserver) -> None:
    assert not restarted(make, 3, seen, logdir)


@pytest.mark.parametrize("start", [0, 1])
def test_training_that_begins_anew_is_not_recorded(start: int, logdir: str, seen: MemoryObserver) -> None:
    assert not restarted(new, start, seen, logdir)


def test_a_second_schedule_in_one_run_is_not_recorded(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for start in (1, 4):
        train(model, optimizer, decayed(optimizer), start, start + 3)
    assert not [event for event in seen.events if isinstance(event, ScheduleRestart)]
