"""Programs that train without an optimizer of PyTorch's: gradients, updates and steps are seen all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Buffer, Gradient, OptimizerStep, Parameter, StatePattern, Update
from tests.proxy_wrapper.programs import Plain, images, labels, state_of, train

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def subtract(parameter: nn.Parameter) -> None:
    with torch.no_grad():
        parameter -= 0.1 * parameter.grad  # type: ignore[operator, misc]


def subtract_from_data(parameter: nn.Parameter) -> None:
    parameter.data -= 0.1 * parameter.grad.data  # type: ignore[union-attr]


def add_to_data(parameter: nn.Parameter) -> None:
    parameter.data.add_(parameter.grad, alpha=-0.1)  # type: ignore[arg-type]


class Lion:
    """An optimizer that is none of `torch.optim.Optimizer`."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = list(model.parameters())

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self._parameters:
            if parameter.grad is not None:
                parameter.sub_(parameter.grad.sign(), alpha=0.01)


def train_by_hand(model: nn.Module, update: Callable[[nn.Parameter], None], steps: int) -> list[torch.Tensor]:
    gradients = []
    for _ in range(steps):
        model.zero_grad()
        F.cross_entropy(model(images()), labels()).backward()
        for parameter in model.parameters():
            update(parameter)
        gradients.append(next(model.parameters()).grad.clone())  # type: ignore[union-attr]
    return gradients


def test_every_change_of_running_statistics_is_seen(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Sequential(Plain(), nn.BatchNorm1d(10)), recurse=True, name="net", logdir=logdir)
    train_by_hand(model, subtract, steps=10)
    Proxy.flush()
    (number,) = (e.id for e in seen.events if isinstance(e, Buffer) and e.name == "net.1.running_mean")
    assert [e.step for e in seen.events if isinstance(e, Update) and e.tensor == number] == list(range(10))


@pytest.mark.parametrize("update", [subtract, subtract_from_data, add_to_data])
def test_every_update_and_gradient_is_seen(
    update: Callable[[nn.Parameter], None], logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    gradients = train_by_hand(model, update, steps=10)
    Proxy.flush()
    names = {event.id: event.name for event in seen.events if isinstance(event, Parameter)}
    for name, _ in model.named_parameters():
        updates = [event for event in seen.events if isinstance(event, Update) and names[event.tensor] == f"net.{name}"]
        assert [event.step for event in updates] == list(range(10))
    first = [e for e in seen.events if isinstance(e, Gradient) and names[e.tensor] == "net.first.weight"]
    assert [event.step for event in first] == list(range(10))
    for event, gradient in zip(first, gradients, strict=True):
        assert event.statistics is not None
        assert event.statistics.maximum == gradient.max().item()
        assert event.location


def clear_in_place(model: nn.Module) -> None:
    model.zero_grad(set_to_none=False)


def clear_data(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.data.zero_()


def weaken(model: nn.Module) -> None:
    """The gradients are a momentum."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(0.9)


def leave(model: nn.Module) -> None:
    """Do nothing."""


@pytest.mark.parametrize("clear", [leave, clear_in_place, clear_data, weaken, nn.Module.zero_grad])
def test_gradients_that_no_step_by_hand_clears_are_told(
    clear: Callable[[nn.Module], None], logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    for _ in range(7):
        output = model(torch.ones(2, 4))
        clear(model)
        output.square().sum().backward()
        for parameter in model.parameters():
            subtract(parameter)
    found = [(each.what, list(each.values)) for each in seen.events if isinstance(each, StatePattern)]
    assert found == [("gradient-carried", [4, 5])] * (clear is leave)


def test_an_optimizer_of_the_program_s_own_is_seen_by_what_it_changes(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    optimizer = Lion(model)
    for _ in range(5):
        model.zero_grad()
        F.cross_entropy(model(images()), labels()).backward()
        optimizer.step()
    Proxy.flush()
    assert {event.step for event in seen.events if isinstance(event, Gradient)} == set(range(5))
    assert {event.step for event in seen.events if isinstance(event, Update)} == set(range(5))


def test_sampling_counts_steps_by_hand(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, every=4)
    train_by_hand(model, subtract, steps=10)
    Proxy.flush()
    assert 5 not in {event.step for event in seen.events if isinstance(event, Update)}
    assert {0, 4, 8} <= {event.step for event in seen.events if isinstance(event, Update)}


@pytest.mark.parametrize("calls", [1, 3, 4, 8])
@pytest.mark.parametrize("before", [0, 5])
def test_training_is_seen_however_often_the_model_is_called_before_it(
    calls: int, before: int, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    for _ in range(before):
        model(images())
    for _ in range(6):
        model.zero_grad()
        loss = sum((F.cross_entropy(model(images()), labels()) for _ in range(calls)), start=torch.zeros(()))
        loss.backward()
        for parameter in model.parameters():
            add_to_data(parameter)
    Proxy.flush()
    (weight,) = [event.id for event in seen.events if isinstance(event, Parameter) and event.name == "net.first.weight"]
    for kind in (Update, Gradient):
        steps = [event.step for event in seen.events if isinstance(event, kind) and event.tensor == weight]
        assert steps == list(range(6))


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_what_is_only_read_through_data_is_no_step(level: str, logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level=level)
    for _ in range(3):
        F.cross_entropy(model(images()), labels()).backward()
        assert all(parameter.data.norm() > 0 for parameter in model.parameters())
    model(images())
    Proxy.flush()
    assert not [event for event in seen.events if isinstance(event, Update)]
    assert Proxy._installed.get().step == 0


def test_the_last_step_counts_when_the_program_ends(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    train_by_hand(model, subtract, steps=5)
    Proxy.flush()
    Proxy.flush()
    assert Proxy._installed.get().step == 5


def test_with_an_optimizer_a_gradient_is_recorded_once_a_step(logdir: str, seen: MemoryObserver) -> None:
    train(Proxy.Proxy(Plain(), recurse=True, logdir=logdir), steps=3)
    steps = [event.step for event in seen.events if isinstance(event, Gradient)]
    assert steps == sorted([0, 1, 2] * 4)
    assert len([event for event in seen.events if isinstance(event, OptimizerStep)]) == 3


def test_evaluation_is_no_training(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    for _ in range(3):
        decay_without_backward(model)
        model(images())
    assert {event.step for event in seen.events if isinstance(event, Update)} == {0}
    assert not any(isinstance(event, Gradient) for event in seen.events)


def decay_without_backward(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)


@pytest.mark.parametrize("update", [subtract, subtract_from_data, add_to_data])
def test_training_by_hand_gives_the_same_bits(update: Callable[[nn.Parameter], None], logdir: str, level: str) -> None:
    def run(trace: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Plain()
        if trace:
            Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level)
        gradients = train_by_hand(model, update, steps=8)
        return [*gradients, *state_of(model), torch.get_rng_state()]

    assert all(torch.equal(a, b) for a, b in zip(run(trace=False), run(trace=True), strict=True))


def gradients_of(seen: MemoryObserver, name: str) -> list[Gradient]:
    ids = {event.id for event in seen.events if isinstance(event, Parameter) and event.name == name}
    return [event for event in seen.events if isinstance(event, Gradient) and event.tensor in ids]


def test_gradients_of_a_model_trained_by_hand_beside_an_optimizer_are_seen(logdir: str, seen: MemoryObserver) -> None:
    trained = Proxy.Proxy(Plain(), recurse=True, name="trained", logdir=logdir)
    by_hand = Proxy.Proxy(Plain(), recurse=True, name="by_hand", logdir=logdir)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    expected = []
    for _ in range(5):
        train(trained, optimizer, steps=1)
        expected += train_by_hand(by_hand, subtract_from_data, steps=1)
    Proxy.flush()
    found = gradients_of(seen, "by_hand.first.weight")
    assert [event.statistics.maximum for event in found if event.statistics] == [each.max().item() for each in expected]
    assert not any(event.has_optimizer for event in found)
    assert all(event.has_optimizer for event in gradients_of(seen, "trained.first.weight"))


def test_a_parameter_that_was_forgotten_has_had_gradients_and_one_that_is_kept_has_not(
    logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    kept = Proxy.Proxy(Plain(), recurse=True, name="kept", logdir=logdir)
    optimizer = torch.optim.SGD(model.rest.parameters(), lr=0.1)
    for _ in range(4):
        model.zero_grad()
        with torch.no_grad():
            kept(images())
        F.cross_entropy(model(images()), labels()).backward()
        optimizer.step()
    Proxy.flush()
    assert [event.has_optimizer for event in gradients_of(seen, "net.first.weight")] == [False] * 4
    assert [event.has_optimizer for event in gradients_of(seen, "net.rest.0.weight")] == [True] * 4
    assert not gradients_of(seen, "kept.first.weight")


def test_an_optimizer_that_steps_late_takes_its_gradients_all_the_same(logdir: str, seen: MemoryObserver) -> None:
    """As a generator's does, whose backward pass comes when the discriminator's optimizer has stepped already."""
    first = Proxy.Proxy(Plain(), recurse=True, name="first", logdir=logdir)
    second = Proxy.Proxy(Plain(), recurse=True, name="second", logdir=logdir)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (first, second)]
    for _ in range(3):
        train(first, optimizers[0], steps=1)
        train(second, optimizers[1], steps=1)
    Proxy.flush()
    assert [event.has_optimizer for event in gradients_of(seen, "second.first.weight")] == [True] * 3


def test_of_a_model_that_is_freed_after_a_change_by_hand_the_trace_says_that_it_was(
    logdir: str, seen: MemoryObserver
) -> None:
    def train_and_forget() -> None:
        train_by_hand(Proxy.Proxy(Plain(), recurse=True, name="by_hand", logdir=logdir), subtract, steps=1)
        train(Proxy.Proxy(Plain(), recurse=True, name="by_optimizer", logdir=logdir), steps=1)
        Proxy.Proxy(Plain(), recurse=True, name="called", logdir=logdir)(images())

    kept = Proxy.Proxy(Plain(), recurse=True, name="kept", logdir=logdir)
    train_by_hand(kept, subtract, steps=1)
    train_and_forget()
    Proxy.flush()
    freed = {event.name for event in seen.events if isinstance(event, Parameter) and event.freed}
    assert freed == {f"by_hand.{name}" for name, _ in kept.named_parameters()}
