"""Calls of modules: their order, what goes in and out, exceptions, and the first non-finite output."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import CallModule, Location, Module, NonFinite, ReturnModule
from tests.proxy_wrapper.programs import Branching, Plain, images

if TYPE_CHECKING:
    from proxy_wrapper.writing.observers.memory import MemoryObserver


def test_a_call_says_what_goes_in_and_what_comes_out(logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(nn.Linear(3, 2), logdir=logdir)(torch.ones(4, 3))
    (call,) = (event for event in seen.events if isinstance(event, CallModule))
    (end,) = (event for event in seen.events if isinstance(event, ReturnModule))
    assert call.inputs == ("float32[4, 3]",)
    assert call.training
    assert end.outputs == ("float32[4, 2]",)
    assert end.duration_us >= 0


def test_tensors_given_by_keyword_are_told_at_the_end(logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(nn.Linear(3, 2), logdir=logdir)(input=torch.ones(4, 3))
    (end,) = (event for event in seen.events if isinstance(event, ReturnModule))
    assert end.keywords == {"input": "float32[4, 3]"}


def test_a_call_is_at_its_line_in_user_code(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(3, 2), logdir=logdir)
    here = test_a_call_is_at_its_line_in_user_code.__code__.co_firstlineno + 3
    model(torch.ones(4, 3))
    places = {event.id: event for event in seen.events if isinstance(event, Location)}
    (call,) = (event for event in seen.events if isinstance(event, CallModule))
    assert places[call.location].line == here
    assert places[call.location].file.endswith("test_module_calls.py")


@pytest.mark.parametrize("way", ["torch's own", "the class's own", "a graph's"])
def test_a_class_with_a_way_of_its_own_to_be_called_is_told_apart(way: str, logdir: str, seen: MemoryObserver) -> None:
    class Around(nn.Linear):
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return self.forward(x)

    layer = Around(3, 2) if way == "the class's own" else nn.Linear(3, 2)
    model = torch.fx.symbolic_trace(layer) if way == "a graph's" else layer
    Proxy.Proxy(model, logdir=logdir)(torch.ones(4, 3))
    (defined,) = (event for event in seen.events if isinstance(event, Module))
    calls = [event for event in seen.events if isinstance(event, CallModule)]
    assert (defined.calls_seen, len(calls)) == ((False, 0) if way == "the class's own" else (True, 1))


def test_evaluation_is_told_from_training(logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(nn.Linear(3, 2), logdir=logdir).eval()(torch.ones(4, 3))
    assert [event.training for event in seen.events if isinstance(event, CallModule)] == [False]


def test_a_dropped_result_of_a_call_without_autograd_is_told(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir)
    x = torch.ones(1, 2)
    model(x)
    with torch.no_grad():
        model(x)
        model(x).sum()
        kept = [model(x)]
        model.eval()(x)
    assert kept
    assert [each.discarded for each in seen.events if isinstance(each, CallModule)] == [
        False,
        True,
        False,
        False,
        False,
    ]


def test_calls_that_raise_end_as_raised_from_the_inside_out(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        model(torch.ones(2, 3))
    assert [(event.module, event.raised) for event in seen.events if isinstance(event, ReturnModule)] == [
        (2, True),
        (1, True),
    ]
    model(images())
    assert not any(event.raised for event in seen.events[-8:] if isinstance(event, ReturnModule))


def test_a_call_inside_an_except_clause_has_not_raised(logdir: str, seen: MemoryObserver) -> None:
    class GivesNothing(nn.Module):
        def forward(self) -> None:
            return None

    model = Proxy.Proxy(GivesNothing(), logdir=logdir)
    try:
        raise ValueError
    except ValueError:
        model()
    assert [event.raised for event in seen.events if isinstance(event, ReturnModule)] == [False]


def test_calls_left_by_an_interrupt_do_not_confuse_the_next(logdir: str, seen: MemoryObserver) -> None:
    class Interrupted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.is_first = True

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.is_first:
                self.is_first = False
                raise KeyboardInterrupt
            return x

    model = Proxy.Proxy(nn.Sequential(Interrupted()), recurse=True, logdir=logdir)
    with pytest.raises(KeyboardInterrupt):
        model(torch.ones(1))
    model(torch.ones(1))
    assert Proxy._installed.get().thread.stack == []
    assert [event.module for event in seen.events if isinstance(event, ReturnModule)] == [2, 1]


def test_the_first_non_finite_output_is_reported_once_a_module(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level="WARNING")
    with torch.no_grad():
        model.rest[0].get_parameter("weight")[0, 0] = float("nan")
    for _ in range(2):
        model(images())
    found = [event for event in seen.events if isinstance(event, NonFinite)]
    assert [(event.module, event.where, event.count, event.type) for event in found] == [
        (4, "parameter", 1, "float32[10, 8]"),
        (4, "output", 4, "float32[4, 10]"),
        (5, "output", 4, "float32[4, 10]"),
    ]


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scaled = x / x.sum()
        shifted = scaled + 1
        result: torch.Tensor = self.fc(shifted)
        return result


def test_the_first_non_finite_output_is_told_with_the_variable_that_led_to_it(
    logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(Normalised(), recurse=True, logdir=logdir)
    model(torch.zeros(1, 3))
    lines = {event.id: event.line for event in seen.events if isinstance(event, Location)}
    (first,) = [event for event in seen.events if isinstance(event, NonFinite)]
    start = Normalised.forward.__code__.co_firstlineno
    assert (first.variable, lines[first.computed], lines[first.location]) == ("scaled", start + 1, start + 3)


class Detached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.inner(x).detach()
        with torch.no_grad():
            result: torch.Tensor = self.outer(inner)
        return result


def test_modules_that_no_gradient_reaches_are_told_in_their_first_calls_in_training(
    logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(Detached(), recurse=True, logdir=logdir)
    names = {1: "model", 2: "inner", 3: "outer"}
    for training in (False, True, True, True, True):
        model.train(training)(torch.zeros(1, 3))
    found = [(names[event.module], event.cut_off) for event in seen.events if isinstance(event, ReturnModule)]
    in_training = [("inner", False), ("outer", True), ("model", True)]
    late = [(name, False) for name, _ in in_training]
    assert found == late + in_training * 3 + late


def test_large_finite_outputs_are_not_taken_for_infinite(logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(nn.Identity(), logdir=logdir)(torch.full((10,), 3e38))
    assert not any(isinstance(event, NonFinite) for event in seen.events)


def test_every_thread_that_runs_a_proxied_module_is_traced(level: str, logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Branching(), recurse=True, logdir=logdir, log_level=level)
    threads = [threading.Thread(target=model, args=(images(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calls = [event for event in seen.events if isinstance(event, CallModule)]
    assert len({event.thread for event in calls}) >= 1
    assert all(event.thread for event in calls)
    assert len(calls) == 3 * 5


def test_modules_that_have_nothing_to_do_with_a_proxied_one_leave_nothing(logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(nn.Linear(1, 1), logdir=logdir)
    before = len(seen.events)
    nn.CrossEntropyLoss()(torch.ones(1, 3), torch.tensor([1]))
    Plain()(images())
    assert len(seen.events) == before


class TakesLogarithm(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.log_()


class FillsColumn(nn.Module):
    """Gives nothing back."""

    def forward(self, x: torch.Tensor, _: object = None) -> None:
        x[:, 0] = float("inf")


class Fills(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = FillsColumn()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.inner(x, None)
        return x


@pytest.mark.parametrize(("layer", "blamed"), [(TakesLogarithm, "net.1"), (Fills, "net.1.inner")])
@torch.no_grad()
def test_what_a_module_writes_in_place_is_its_own(
    layer: type[nn.Module], blamed: str, logdir: str, seen: MemoryObserver
) -> None:
    model = nn.Sequential(nn.Identity(), layer(), nn.Linear(3, 2))
    Proxy.Proxy(model, recurse=True, name="net", logdir=logdir)(torch.tensor([[-1.0, 2.0, 3.0]]))
    names = {event.id: event.name for event in seen.events if isinstance(event, Module)}
    found = [(names[event.module], event.where) for event in seen.events if isinstance(event, NonFinite)]
    assert found == [(blamed, "output"), ("net.2", "output")]


@torch.no_grad()
def test_what_the_program_writes_into_an_input_is_no_modules(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Sequential(nn.Identity(), nn.ReLU()), recurse=True, name="net", logdir=logdir)
    x = torch.ones(2, 2)
    model[0](x)
    x[0, 0] = float("inf")
    model[0](x)
    assert not [event for event in seen.events if isinstance(event, NonFinite)]
