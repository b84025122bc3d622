"""Threads that train at the same time, with optimizers and by hand: each one's gradients and steps are its own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Gradient, Parameter, Update
from tests.proxy_wrapper.programs import Plain, images, labels
from tests.proxy_wrapper.truth.in_threads import run_in_threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def proxied(name: str, logdir: str) -> nn.Module:
    return Proxy.Proxy(Plain(), recurse=True, name=name, logdir=logdir)


def backward(model: nn.Module) -> None:
    F.cross_entropy(model(images()), labels()).backward()


def change(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)


def in_a_thread(task: Callable[[], object]) -> None:
    run_in_threads([task])


def gradients_of(seen: MemoryObserver, name: str) -> list[bool]:
    """Whether an optimizer had `<name>.first.weight`, for each of its gradients that were recorded."""
    ids = {event.id for event in seen.events if isinstance(event, Parameter) and event.name == f"{name}.first.weight"}
    return [event.has_optimizer for event in seen.events if isinstance(event, Gradient) and event.tensor in ids]


def test_what_a_thread_leaves_that_ends_during_another_one_s_backward_pass_is_recorded_once(
    logdir: str, seen: MemoryObserver
) -> None:
    models = [proxied("ends", logdir), proxied("goes_on", logdir)]
    has_left, is_in_backward = threading.Event(), threading.Event()

    def end_meanwhile() -> None:
        backward(models[0])
        has_left.set()
        is_in_backward.wait()

    ending = threading.Thread(target=end_meanwhile)

    def let_it_end(_: torch.Tensor) -> None:
        is_in_backward.set()
        ending.join()

    def go_on() -> None:
        loss = F.cross_entropy(models[1](images()), labels())
        loss.register_hook(let_it_end)
        has_left.wait()
        loss.backward()

    ending.start()
    in_a_thread(go_on)
    Proxy.flush()
    assert gradients_of(seen, "ends") == [False]
    assert gradients_of(seen, "goes_on") == [False]


def test_a_step_by_hand_in_one_thread_says_nothing_of_another_one_s_gradients(
    logdir: str, seen: MemoryObserver
) -> None:
    models = [proxied("by_optimizer", logdir), proxied("by_hand", logdir)]
    has_gradients, is_by_hand = threading.Event(), threading.Event()

    def train_by_optimizer() -> None:
        optimizer = torch.optim.SGD(models[0].parameters(), lr=0.1)
        backward(models[0])
        has_gradients.set()
        is_by_hand.wait()
        optimizer.step()

    def train_by_hand() -> None:
        has_gradients.wait()
        for _ in range(3):
            models[1].zero_grad()
            backward(models[1])
            change(models[1])
        is_by_hand.set()

    run_in_threads([train_by_optimizer, train_by_hand])
    Proxy.flush()
    assert gradients_of(seen, "by_optimizer") == [True]
    assert gradients_of(seen, "by_hand") == [False] * 3


def test_weights_loaded_in_one_thread_end_no_step_of_another(logdir: str, seen: MemoryObserver) -> None:
    models = [proxied("learns", logdir), proxied("acts", logdir)]
    has_gradients, has_loaded = threading.Event(), threading.Event()

    def learn() -> None:
        backward(models[0])
        has_gradients.set()
        has_loaded.wait()

    def act() -> None:
        has_gradients.wait()
        change(models[1])
        models[1](images())
        has_loaded.set()

    run_in_threads([learn, act])
    Proxy.flush()
    assert [event for event in seen.events if isinstance(event, Update)]
    assert Proxy._installed.get().step == 0


def test_the_last_step_by_hand_of_each_thread_counts_when_all_have_ended(logdir: str, seen: MemoryObserver) -> None:
    models = [proxied("first", logdir), proxied("second", logdir)]
    in_turns = threading.Barrier(2)

    def train(model: nn.Module) -> None:
        for _ in range(3):
            backward(model)
            in_turns.wait()
            change(model)
            in_turns.wait()

    run_in_threads([lambda: train(models[0]), lambda: train(models[1])])
    Proxy.flush()
    assert Proxy._installed.get().step == 6


def test_a_step_by_hand_counts_once_that_one_thread_begins_and_another_ends(logdir: str, seen: MemoryObserver) -> None:
    model = proxied("net", logdir)
    for _ in range(4):
        in_a_thread(lambda: backward(model))
        change(model)
        model(images())
    assert Proxy._installed.get().step == 4


def test_changes_after_the_steps_of_another_thread_s_optimizer_are_no_steps(logdir: str, seen: MemoryObserver) -> None:
    model = proxied("net", logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    backward(model)
    optimizer.step()

    def clip_and_go_on() -> None:
        backward(model)
        change(model)
        model(images())

    in_a_thread(clip_and_go_on)
    Proxy.flush()
    assert Proxy._installed.get().step == 1


def test_gradients_wait_for_an_optimizer_that_their_thread_makes_after_another_one_s_steps(
    logdir: str, seen: MemoryObserver
) -> None:
    models = [proxied("begins_late", logdir), proxied("steps", logdir)]
    has_gradients, has_stepped = threading.Event(), threading.Event()

    def begin_late() -> None:
        warm_up = torch.nn.Linear(2, 2)
        optimizer_of_another = torch.optim.SGD(Proxy.Proxy(warm_up, name="warm_up", logdir=logdir).parameters(), lr=0.1)
        warm_up(torch.ones(1, 2)).sum().backward()
        optimizer_of_another.step()
        backward(models[0])
        has_gradients.set()
        has_stepped.wait()
        models[0].zero_grad()
        backward(models[0])
        torch.optim.SGD(models[0].parameters(), lr=0.1).step()

    def step() -> None:
        has_gradients.wait()
        optimizer = torch.optim.SGD(models[1].parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            backward(models[1])
            optimizer.step()
        has_stepped.set()

    run_in_threads([begin_late, step])
    Proxy.flush()
    assert gradients_of(seen, "begins_late") == [True]
    assert gradients_of(seen, "steps") == [True] * 4
