"""Models are freed as they would be, and with the last one the hooks go."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import CallModule, Module
from tests.proxy_wrapper.global_hooks import has_module_hooks
from tests.proxy_wrapper.programs import Branching, Plain, images, train

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def has_hooks() -> bool:
    optimizers = sys.modules["torch.optim.optimizer"]
    return bool(
        has_module_hooks()
        or optimizers._global_optimizer_pre_hooks
        or optimizers._global_optimizer_post_hooks
        or torch._C._len_torch_function_stack()
        or nn.Module.__getattr__.__module__ != "torch.nn.modules.module"
        or torch.autograd.backward.__code__.co_filename.startswith(Proxy.__file__.removesuffix("proxy.py"))
    )


def test_hooks_go_with_the_last_model_that_is_freed(level: str, logdir: str) -> None:
    first = Proxy.Proxy(Branching(), recurse=True, logdir=logdir, log_level=level)
    second = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level=level)
    train(first)
    other = Plain()
    del first
    gc.collect()
    other(images())
    assert has_hooks()
    del second
    gc.collect()
    other(images())
    assert not has_hooks()
    train(other)


def test_a_model_is_freed_as_soon_as_it_is_dropped(level: str, logdir: str) -> None:
    """Without the collector: nothing of ours is in a cycle with it, or waits for one."""

    def train_and_drop() -> list[weakref.ref[Any]]:
        model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level=level)
        train(model)
        Proxy.flush()
        return [weakref.ref(each) for each in (model, model.rest, *model.parameters())]

    train_and_drop()  # What torch makes once, and keeps, is made now.
    gc.collect()
    gc.disable()
    try:
        assert [reference() for reference in train_and_drop()] == [None] * 6
    finally:
        gc.enable()


def test_a_model_proxied_after_all_others_were_freed_goes_on_in_the_same_run(logdir: str, seen: MemoryObserver) -> None:
    """As in cross-validation: a model for each fold, none of them unproxied."""
    for _ in range(3):
        model = Proxy.Proxy(Plain(), recurse=True, name="fold", logdir=logdir)
        tracer = Proxy._installed.get()
        train(model, steps=1)
        del model
        gc.collect()
        nn.Identity()(torch.ones(1))
    assert Proxy._installed.get() is tracer
    roots = [event.name for event in seen.events if isinstance(event, Module) and not event.parent]
    assert roots == ["fold", "fold_1", "fold_2"]
    assert sum(isinstance(event, CallModule) for event in seen.events) == 15


def test_what_was_noted_of_models_that_were_freed_goes_too(logdir: str) -> None:
    """As in a search for hyperparameters: many models, one after another, beside one that stays."""
    kept = Proxy.Proxy(nn.Linear(1, 1), name="kept", logdir=logdir)
    registry = Proxy._installed.get().registry
    sizes = []
    for _ in range(1000):
        model = Proxy.Proxy(nn.Linear(1, 1), name="model", logdir=logdir)
        model(torch.ones(1, 1))
        del model
        sizes.append((len(registry.modules), len(registry.state), len(registry.by_identity)))
    assert sizes == [(1, 2, 2)] * 1000
    assert sum(entry.module() is None for entry in registry._named.values()) < 1024
    assert kept(torch.ones(1, 1)) is not None


def test_a_model_freed_while_an_optimizer_steps_does_no_harm(level: str, logdir: str) -> None:
    """The collector may run at any time: here between two hooks of an optimizer of something else."""
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level=level)
    gone = weakref.ref(model)
    cycle = [model]
    cycle.append(cycle)  # type: ignore[arg-type]
    del model, cycle
    other = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)

    def collect(*_: object) -> None:
        gc.collect()

    optimizer.register_step_pre_hook(collect)
    other(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    assert gone() is None


def test_a_model_freed_inside_a_backward_pass_does_no_harm(logdir: str) -> None:
    models = [Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level="DEBUG")]
    other = nn.Linear(1, 1)

    def hook(gradient: torch.Tensor) -> None:
        models.clear()
        gc.collect()
        other(torch.ones(1, 1))

    out = other(torch.ones(1, 1))
    out.register_hook(hook)
    out.sum().backward()
    other(torch.ones(1, 1))
    assert not has_hooks()


@pytest.mark.parametrize("kind", ["model", "parameter", "gradient", "output", "input"])
def test_nothing_is_kept_alive(kind: str, level: str, logdir: str) -> None:
    model = Proxy.Proxy(Branching(), recurse=True, logdir=logdir, log_level=level)
    x = images()
    out = model(x)
    out.sum().backward()
    things = {
        "model": model,
        "parameter": model.conv.weight,
        "gradient": model.conv.weight.grad,
        "output": out,
        "input": x,
    }
    thing = things.pop(kind)
    assert thing is not None
    gone = weakref.ref(thing)
    del model, x, out, things, thing
    gc.collect()
    assert gone() is None


def test_the_collector_stays_as_the_program_has_set_it(level: str, logdir: str) -> None:
    def settings() -> tuple[object, ...]:
        return gc.isenabled(), gc.get_threshold(), gc.get_debug(), list(gc.callbacks), gc.get_freeze_count()

    before = settings()
    model = Proxy.Proxy(Branching(), recurse=True, logdir=logdir, log_level=level)
    train(model)
    during = settings()
    Proxy.unproxy(model)
    assert during == settings() == before


def test_steps_of_a_large_model_bring_on_the_collector_no_more_often_for_being_traced(logdir: str) -> None:
    """Else it goes through the whole heap in each step, for longer than the step takes."""
    model = nn.ParameterList(torch.zeros(4) for _ in range(3000))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        for parameter in model:
            parameter.grad = torch.ones(4)
        optimizer.step()

    step()
    plain = collections_during(step)
    Proxy.Proxy(model, recurse=True, logdir=logdir)
    step()
    assert plain > 0
    assert collections_during(step) <= 1.5 * plain


def collections_during(do: Callable[[], None]) -> int:
    """How often the garbage collector runs."""
    runs = 0

    def count(phase: str, _: object) -> None:
        nonlocal runs
        runs += phase == "start"

    gc.collect()
    gc.callbacks.append(count)
    try:
        do()
    finally:
        gc.callbacks.remove(count)
    return runs
