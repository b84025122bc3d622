"""Torch calls, attributes of tensors and reads of values, at level DEBUG."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext
from torch.utils.checkpoint import checkpoint

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import CallFunction, CallMethod, DelAttr, GetAttr, Location, ReadValue, SetAttr
from proxy_wrapper.intercept.calls.torch_calls import TorchCallMode
from tests.proxy_wrapper.programs import Branching, Plain, images, train

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.writing.observers.memory import MemoryObserver


@pytest.fixture
def weight(logdir: str, seen: MemoryObserver) -> Iterator[torch.Tensor]:
    """The weight of a model proxied at DEBUG, which lives as long; `seen` holds what happens to it."""
    model = Proxy.Proxy(nn.Linear(2, 2), name="net", logdir=logdir, log_level="DEBUG")
    weight = model.weight
    seen.events.clear()
    yield weight
    del model


def test_a_function_is_called_as_torch_fx_calls_it(weight: torch.Tensor, seen: MemoryObserver) -> None:
    torch.relu(weight)
    F.softmax(torch.ones(1, 3), dim=1)
    calls = [event for event in seen.events if type(event) is CallFunction]
    assert [(event.target, event.inputs, event.outputs) for event in calls] == [
        ("torch.relu", ("net.weight",), ("float32[2, 2]",)),
        ("torch.ones", (), ("float32[1, 3]",)),
        ("torch.nn.functional.softmax", ("float32[1, 3]",), ("float32[1, 3]",)),
    ]


def test_a_method_says_whether_it_worked_in_place(weight: torch.Tensor, seen: MemoryObserver) -> None:
    weight.detach().mul_(2.0)
    calls = [event for event in seen.events if isinstance(event, CallMethod)]
    assert [(event.target, event.in_place) for event in calls] == [("detach", False), ("mul_", True)]


def test_a_change_of_a_parameter_names_it(weight: torch.Tensor, seen: MemoryObserver) -> None:
    with torch.no_grad():
        weight.mul_(2.0)
    (call,) = (event for event in seen.events if isinstance(event, CallMethod))
    assert (call.inputs, call.outputs, call.in_place) == (("net.weight",), ("net.weight",), True)


def test_marks_for_the_profiler_are_no_calls(weight: torch.Tensor, seen: MemoryObserver) -> None:
    with torch.autograd.profiler.record_function("range"):
        pass
    assert seen.events == []


def test_a_call_that_raises_is_recorded_as_raised(weight: torch.Tensor, seen: MemoryObserver) -> None:
    with pytest.raises(RuntimeError):
        torch.matmul(weight, torch.ones(5))
    assert [event.target for event in seen.events if isinstance(event, CallFunction) and event.raised] == [
        "torch.matmul"
    ]


def test_attributes_are_read_and_written(weight: torch.Tensor, seen: MemoryObserver) -> None:
    weight.grad = torch.ones(2, 2)
    assert weight.grad is not None
    assert not weight.is_sparse
    weight.grad = None
    del weight.grad
    events = [event for event in seen.events if isinstance(event, (GetAttr, SetAttr, DelAttr))]
    assert [(type(event).__name__, event.target, event.owner, getattr(event, "value", "")) for event in events] == [
        ("SetAttr", "grad", "net.weight", "float32[2, 2]"),
        ("GetAttr", "grad", "net.weight", "float32[2, 2]"),
        ("GetAttr", "is_sparse", "net.weight", "False"),
        ("SetAttr", "grad", "net.weight", "None"),
        ("DelAttr", "grad", "net.weight", ""),
    ]


def test_a_tensor_read_twice_is_known_the_second_time(weight: torch.Tensor, seen: MemoryObserver) -> None:
    weight.grad = torch.ones(2, 2)
    for _ in range(2):
        assert weight.grad is not None
    assert [event.known for event in seen.events if isinstance(event, GetAttr)] == [False, True]


def test_values_that_python_reads_are_recorded(weight: torch.Tensor, seen: MemoryObserver) -> None:
    taken = bool(torch.tensor(3.0) > 2)
    number = torch.tensor(1.5).item()
    infinite = float(torch.tensor(float("inf")))
    assert (taken, number, infinite) == (True, 1.5, float("inf"))
    reads = [event for event in seen.events if isinstance(event, ReadValue)]
    assert [(event.target, event.value) for event in reads] == [
        ("__bool__", True),
        ("item", 1.5),
        ("__float__", "inf"),
    ]


def test_calls_in_forward_belong_to_their_module(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Branching(), recurse=True, logdir=logdir, log_level="DEBUG")
    model(images())
    owners = {event.target: event.module for event in seen.events if type(event) is CallFunction}
    assert owners["torch.conv2d"] == 2
    assert owners["torch.relu"] == 1


def test_below_debug_there_is_no_mode_and_no_such_event(logdir: str, seen: MemoryObserver) -> None:
    train(Proxy.Proxy(Branching(), recurse=True, logdir=logdir, log_level="INFO"))
    assert torch._C._len_torch_function_stack() == 0
    assert not any(isinstance(event, (CallFunction, GetAttr, SetAttr, ReadValue)) for event in seen.events)


def test_a_subtree_can_be_watched_more_closely(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Branching(), recurse=True, logdir=logdir)
    Proxy.Proxy(model.conv, log_level="DEBUG")
    model(images())
    inside = {event.target for event in seen.events if type(event) is CallFunction and event.module}
    assert inside == {"torch.conv2d"}


class Passing(TorchFunctionMode):
    """A mode of the program's own."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        return func(*args, **(kwargs or {}))


def stack() -> list[type]:
    depth = torch._C._len_torch_function_stack()
    return [type(torch._C._get_function_stack_at(index)) for index in range(depth)]


def test_the_mode_goes_below_a_mode_that_is_open_already(logdir: str) -> None:
    model = nn.Linear(1, 1)
    with Passing():
        Proxy.Proxy(model, logdir=logdir, log_level="DEBUG")
        assert stack() == [TorchCallMode, Passing]
    assert stack() == [TorchCallMode]


def test_a_device_opened_with_with_nests(logdir: str) -> None:
    model = nn.Linear(1, 1)
    with torch.device("meta"):
        Proxy.Proxy(model, logdir=logdir, log_level="DEBUG")
        assert stack() == [TorchCallMode, DeviceContext]
        assert torch.empty(1).is_meta
    assert stack() == [TorchCallMode]
    assert not torch.empty(1).is_meta


@pytest.mark.parametrize("proxy_first", [True, False])
def test_a_default_device_stays_below(logdir: str, proxy_first: bool) -> None:
    model = nn.Linear(1, 1)
    if not proxy_first:
        torch.set_default_device("meta")
    try:
        Proxy.Proxy(model, logdir=logdir, log_level="DEBUG")
        if proxy_first:
            torch.set_default_device("meta")
        assert stack() == [DeviceContext, TorchCallMode]
        assert torch.empty(1).is_meta
    finally:
        torch.set_default_device(None)
    assert stack() == [TorchCallMode]
    assert not torch.empty(1).is_meta


def test_the_mode_is_set_aside_for_modules_that_look_for_it(logdir: str, seen: MemoryObserver) -> None:
    model = nn.Sequential(nn.MultiheadAttention(4, 1), nn.Identity())
    attention = Proxy.Proxy(model, recurse=True, logdir=logdir, log_level="DEBUG")[0]
    x = torch.ones(1, 1, 4)
    attention(x, x, x)
    assert stack() == [TorchCallMode]
    assert not any(type(event) is CallFunction and event.module for event in seen.events)


def test_modules_that_run_inside_a_torch_call_leave_the_stack_as_it_is(logdir: str, seen: MemoryObserver) -> None:
    """A checkpoint is recomputed inside `Tensor.backward`, during which torch has set the mode aside."""
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level="DEBUG")
    for _ in range(2):
        checkpoint(model, images().requires_grad_(), use_reentrant=False).sum().backward()
        assert stack() == [TorchCallMode]
    names = [event.target for event in seen.events if isinstance(event, CallMethod)]
    assert names.count("backward") == 2


def test_calls_in_a_closure_are_at_their_own_lines(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(2, 1), logdir=logdir, log_level="DEBUG")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure() -> float:
        loss = torch.sigmoid(model(torch.ones(1, 2))).sum()
        loss.backward()
        return float(loss.detach())

    optimizer.step(closure)
    places = {event.id: event for event in seen.events if isinstance(event, Location)}
    (call,) = (event for event in seen.events if isinstance(event, CallFunction) and event.target == "torch.sigmoid")
    assert places[call.location].line == closure.__code__.co_firstlineno + 1


def test_calls_in_a_step_come_from_where_the_step_was_called(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), name="net", logdir=logdir, log_level="DEBUG")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    model(torch.ones(1, 2)).sum().backward()
    line = sys._getframe().f_lineno + 1
    optimizer.step()
    places = {event.id: event for event in seen.events if isinstance(event, Location)}
    calls = [event for event in seen.events if isinstance(event, CallMethod) and event.target == "add_"]
    assert calls
    assert {places[call.location].line for call in calls} == {line}
