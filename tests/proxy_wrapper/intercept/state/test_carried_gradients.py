"""A step tells whether the gradients of the last one were still there when its backward passes began."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import OptimizerStep, OptimizerStepEnd
from proxy_wrapper.intercept.state import carried_gradients, state_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def carried(seen: MemoryObserver) -> list[bool]:
    return [event.carried for event in seen.events if isinstance(event, OptimizerStep)]


def by_data(optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                parameter.grad.data.zero_()


CLEAR: dict[str, Callable[[torch.optim.Optimizer], None]] = {
    "set to None": lambda optimizer: optimizer.zero_grad(),
    "set to zero": lambda optimizer: optimizer.zero_grad(set_to_none=False),
    "zeroed by data": by_data,
}


def dropped(seen: MemoryObserver) -> list[int]:
    return [event.dropped for event in seen.events if isinstance(event, OptimizerStep)]


@pytest.mark.parametrize("clear", CLEAR.values(), ids=CLEAR.keys())
def test_gradients_of_passes_that_are_cleared_before_the_next_one_are_counted(
    clear: Callable[[torch.optim.Optimizer], None], logdir: str, seen: MemoryObserver
) -> None:
    """Accumulation that clears in each pass. Of the first step nothing is known: no step has chosen a parameter."""
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(12):
        clear(optimizer)
        model(torch.randn(2, 4)).sum().backward()
        if number % 4 == 3:
            optimizer.step()

    assert dropped(seen) == [0, 3, 3]


def test_gradients_that_are_accumulated_are_not_dropped(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(12):
        model(torch.randn(2, 4)).sum().backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()

    assert dropped(seen) == [0, 0, 0]


def test_passes_at_several_places_drop_nothing(logdir: str, seen: MemoryObserver) -> None:
    """What one of them leaves may be for another optimizer."""
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(2, 4)).sum().backward()
        optimizer.zero_grad()
        model(torch.randn(2, 4)).square().sum().backward()
        optimizer.step()

    assert dropped(seen) == [0, 0, 0]


@pytest.mark.parametrize("clear", CLEAR.values(), ids=CLEAR.keys())
@pytest.mark.parametrize("when", ["before the backward pass", "after the step"])
def test_gradients_that_are_cleared_are_not_carried(
    clear: Callable[[torch.optim.Optimizer], None], when: str, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        if when != "after the step":
            clear(optimizer)
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        if when == "after the step":
            clear(optimizer)

    assert carried(seen) == [False] * 4


def test_gradients_that_nobody_clears_are_carried(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()

    assert carried(seen) == [False, True, True, True]


def test_accumulation_over_several_passes_is_none(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(8):
        model(torch.randn(2, 4)).sum().backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()

    assert carried(seen) == [False, False]


def test_what_another_loss_adds_before_the_clearing_is_none(logdir: str, seen: MemoryObserver) -> None:
    """As with a discriminator, which the generator's loss goes through."""
    generator = Proxy.Proxy(nn.Linear(4, 4), recurse=True, logdir=logdir)
    judge = Proxy.Proxy(nn.Linear(4, 1), recurse=True, logdir=logdir)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (judge, generator)]
    for _ in range(4):
        for optimizer, inputs in zip(optimizers, (torch.randn(2, 4), None), strict=True):
            optimizer.zero_grad()
            judge(generator(torch.randn(2, 4)) if inputs is None else inputs).sum().backward()
            optimizer.step()

    assert carried(seen) == [False] * 8


def test_gradients_that_are_put_in_the_place_of_others_are_none(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randn(2, 4)).sum().backward()
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()

    assert carried(seen) == [False] * 3


@pytest.mark.parametrize("clears", [True, False])
def test_a_closure_clears_in_the_step_itself(clears: bool, logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    inputs = torch.randn(2, 4)

    def closure() -> float:
        if clears:
            optimizer.zero_grad()
        loss: torch.Tensor = model(inputs).square().sum()
        loss.backward()
        return loss.item()

    for _ in range(3):
        optimizer.step(closure)

    assert carried(seen) == [False] * 3
    ends = [event.carried for event in seen.events if isinstance(event, OptimizerStepEnd)]
    assert ends == [False, not clears, not clears]


def test_clipping_reads_no_gradient_that_another_running_thread_trains(
    logdir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Autograd may replace it meanwhile, without Python's lock, so that freed memory would be read."""
    models = [Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir) for _ in range(2)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    has_trained, may_end = threading.Event(), threading.Event()
    read: list[int] = []
    before = state_records.gradient_of

    def gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
        read.append(id(tensor))
        return before(tensor)

    def train(number: int) -> None:
        for _ in range(3):
            models[number](torch.randn(2, 4)).sum().backward()
            nn.utils.clip_grad_norm_(models[number].parameters(), 1.0)
            optimizers[number].step()
            optimizers[number].zero_grad()

    def train_and_wait() -> None:
        train(0)
        has_trained.set()
        may_end.wait(60)

    thread = threading.Thread(target=train_and_wait)
    thread.start()
    try:
        assert has_trained.wait(60)
        monkeypatch.setattr(carried_gradients, "gradient_of", gradient_of)
        train(1)
    finally:
        may_end.set()
        thread.join()
    own, others = ({id(each) for each in model.parameters()} for model in (models[1], models[0]))
    assert own & set(read)
    assert not others & set(read)
