"""Tensors that optimizers keep: named in the calls that take them, with their changes where these are asked for."""

from __future__ import annotations

import copy
import gc
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.open_trace import open_trace
from proxy_wrapper.events import CallFunction, OptimizerState, Statistics, Update
from tests.proxy_wrapper.programs import Plain, images

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def step(model: nn.Module, optimizer: torch.optim.Optimizer, times: int = 1) -> None:
    for _ in range(times):
        optimizer.zero_grad()
        model(images()).square().sum().backward()
        optimizer.step()


def traced(logdir: str, level: str = "DEBUG", **settings: Any) -> nn.Module:
    return Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level=level, **settings)


def names(seen: MemoryObserver) -> dict[int, str]:
    return {event.id: event.name for event in seen.events if isinstance(event, OptimizerState)}


def updates(seen: MemoryObserver, name: str) -> list[Update]:
    (number,) = {id_ for id_, each in names(seen).items() if each == name}
    return [event for event in seen.events if isinstance(event, Update) and event.tensor == number]


@pytest.mark.parametrize("foreach", [False, True])
def test_calls_name_them_from_the_first_step_on(foreach: bool, logdir: str, seen: MemoryObserver) -> None:
    model = traced(logdir)
    step(model, torch.optim.Adam(model.parameters(), foreach=foreach))
    keys = {"step", "exp_avg", "exp_avg_sq"}
    assert set(names(seen).values()) == {f"net.{name}.{key}" for name, _ in model.named_parameters() for key in keys}
    calls = [event for event in seen.events if isinstance(event, CallFunction)]
    changing = "torch._foreach_lerp_" if foreach else "lerp_"
    changed = [name for event in calls if event.target == changing for name in event.outputs]
    assert changed == [f"net.{name}.exp_avg" for name, _ in model.named_parameters()]
    assert not any(isinstance(event, Update) and event.tensor in names(seen) for event in seen.events)
    assert all(event.statistics is None for event in seen.events if isinstance(event, OptimizerState))


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_with_statistics_of_everything_each_change_is_recorded(level: str, logdir: str, seen: MemoryObserver) -> None:
    model = traced(logdir, level, statistics="all")
    optimizer = torch.optim.Adam(model.parameters())
    averages = []
    for _ in range(3):
        step(model, optimizer)
        averages.append(optimizer.state[model.first.weight]["exp_avg"].clone())  # type: ignore[union-attr, index]
    found = updates(seen, "net.first.weight.exp_avg")[-2:]
    for event, average in zip(found, averages[-2:], strict=True):
        assert isinstance(event.statistics, Statistics)
        assert (event.statistics.minimum, event.statistics.maximum) == (average.min().item(), average.max().item())
        assert event.cause == "step"
    history = [entry.kind for entry in open_trace_of(logdir).history("net.first.weight.exp_avg")]
    assert history.count("update") == (2 if level == "INFO" else 3)


def open_trace_of(logdir: str) -> Any:
    Proxy.flush()
    return open_trace(logdir)


def test_at_info_nobody_looks_at_them_unless_asked(logdir: str, seen: MemoryObserver) -> None:
    model = traced(logdir, "INFO", statistics="outputs")
    step(model, torch.optim.Adam(model.parameters()))
    assert names(seen) == {}


def test_what_is_loaded_goes_on_under_the_same_names(logdir: str, seen: MemoryObserver) -> None:
    model = traced(logdir, statistics="all")
    optimizer = torch.optim.Adam(model.parameters())
    step(model, optimizer, 2)
    saved = copy.deepcopy(optimizer.state_dict())
    step(model, optimizer)
    optimizer.load_state_dict(saved)
    step(model, optimizer)
    assert len(names(seen)) == 3 * len(list(model.parameters()))
    causes = [event.cause for event in updates(seen, "net.first.bias.exp_avg")]
    assert causes == ["step", "step", "step", "replaced", "step"]
    counts = [event.statistics.maximum for event in updates(seen, "net.first.bias.step")]  # type: ignore[union-attr]
    assert counts == [1.0, 2.0, 3.0, 2.0, 3.0]


class Own(torch.optim.Optimizer):
    """Keeps what it likes: no tensors, one tensor for two parameters, and some that it makes late and anew."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})
        self.steps = 0

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.steps += 1
        with torch.no_grad():
            shared = None
            for group in self.param_groups:
                for parameter in group["params"]:
                    state = self.state[parameter]
                    state["count"] = state.get("count", 0) + 1
                    state["words"] = ["a", "b"]
                    state[0] = None
                    if shared is None:
                        shared = state.setdefault("total", torch.zeros(()))
                    state["total"] = shared
                    shared.add_(1.0)
                    if self.steps > 1:
                        state["last"] = parameter.grad.clone()
                    state["itself"] = parameter
                    parameter.sub_(parameter.grad * 0.01)
        self.state["note"] = "no parameter"  # type: ignore[index]


@pytest.mark.parametrize("statistics", ["state", "all"])
def test_state_of_any_kind_is_taken_as_it_is(statistics: str, logdir: str, seen: MemoryObserver) -> None:
    plain = Plain()
    model = traced(logdir, statistics=statistics)
    model.load_state_dict(plain.state_dict())
    step(plain, Own(plain.parameters()), 3)
    step(model, Own(model.parameters()), 3)
    assert all(map(torch.equal, plain.parameters(), model.parameters()))
    parameters = [name for name, _ in model.named_parameters()]
    defined = {event.name: event for event in seen.events if isinstance(event, OptimizerState)}
    assert set(defined) == {f"net.{parameters[0]}.total", *(f"net.{name}.last" for name in parameters)}
    assert list(defined[f"net.{parameters[0]}.total"].aliases) == [f"net.{name}.total" for name in parameters[1:]]
    if statistics == "all":
        totals = [event.statistics for event in updates(seen, f"net.{parameters[0]}.total")]
        count = len(parameters)
        assert [each.maximum for each in totals] == [count, 2 * count, 3 * count]  # type: ignore[union-attr]
    assert Proxy._installed.get().active


def test_a_second_optimizer_has_names_of_its_own_until_the_first_is_gone(logdir: str, seen: MemoryObserver) -> None:
    model = traced(logdir)
    first, second = (torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9) for _ in range(2))
    step(model, first, 2)
    step(model, second, 2)
    bias = {"net.first.bias.momentum_buffer", "net.first.bias.momentum_buffer_1"}
    assert {name for name in names(seen).values() if "first.bias" in name} == bias
    del first, second
    gc.collect()
    step(model, torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9), 2)
    assert {name for name in names(seen).values() if "first.bias" in name} == bias


def test_nothing_is_kept_alive(logdir: str) -> None:
    model = traced(logdir, statistics="all")
    optimizer = torch.optim.Adam(model.parameters())
    step(model, optimizer)
    refs = [torch._C._WeakTensorRef(kept["exp_avg"]) for kept in optimizer.state.values()]  # type: ignore[attr-defined]
    del optimizer
    gc.collect()
    assert all(ref.expired() for ref in refs)
    Proxy.flush()
    registry = Proxy._installed.get().registry
    assert registry.optimizer_state
    del model
    gc.collect()
    assert not registry.optimizer_state


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda parameters: torch.optim.Adam(parameters, amsgrad=True), id="Adam"),
        pytest.param(lambda parameters: torch.optim.Adam(parameters, fused=True), id="fused"),
        pytest.param(lambda parameters: torch.optim.LBFGS(parameters, max_iter=2), id="LBFGS"),
        pytest.param(lambda parameters: torch.optim.Rprop(parameters), id="Rprop"),
        pytest.param(lambda parameters: torch.optim.SGD(parameters, lr=0.1), id="SGD"),
        pytest.param(lambda parameters: torch.optim.ASGD(parameters), id="ASGD"),
    ],
)
def test_weights_and_state_are_those_of_a_plain_run(make: Callable[[Any], torch.optim.Optimizer], logdir: str) -> None:
    plain, model = Plain(), Plain()
    model.load_state_dict(plain.state_dict())
    Proxy.Proxy(model, recurse=True, name="net", logdir=logdir, log_level="DEBUG", statistics="all")
    states = []
    for each in (plain, model):
        optimizer = make(each.parameters())
        for _ in range(3):

            def closure(each: nn.Module = each, optimizer: torch.optim.Optimizer = optimizer) -> float:
                optimizer.zero_grad()
                loss: torch.Tensor = each(images()).square().sum()
                loss.backward()
                return loss.item()

            optimizer.step(closure)
        states.append(list(optimizer.state.values()))
    assert all(map(torch.equal, plain.parameters(), model.parameters()))
    for mine, others in zip(*states, strict=True):
        assert mine.keys() == others.keys()
        assert all(torch.equal(mine[key], others[key]) for key in mine if isinstance(mine[key], torch.Tensor))
    assert Proxy._installed.get().active
