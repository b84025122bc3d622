"""Compiled code is recorded at its edges: what goes in, what comes out, and the steps of optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import CallFunction, CallModule, Module, OptimizerStep, OptimizerStepEnd, ReturnModule, Update
from tests.proxy_wrapper.programs import Plain, images, labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.writing.observers.memory import MemoryObserver

pytestmark = pytest.mark.filterwarnings("ignore")

# What compiled code gives shows in the frame of the wrapper around it, if that keeps it: not in PyTorch 2.6.
IS_RESULT_SEEN = "result" in torch.compile(lambda: None, backend="eager").__code__.co_varnames
OUTPUTS = ("float32[4, 10]",) if IS_RESULT_SEEN else ()


@pytest.fixture(autouse=True)
def dynamo_starts_afresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def calls(observer: MemoryObserver) -> list[str]:
    """The names of the modules called, in order."""
    names = {event.id: event.name for event in observer.events if isinstance(event, Module)}
    return [names[event.module] for event in observer.events if isinstance(event, CallModule)]


def functions(observer: MemoryObserver) -> list[CallFunction]:
    return [e for e in observer.events if type(e) is CallFunction and e.target.startswith("torch.compile")]


def test_a_module_compiled_in_place_is_called_as_one(level: str, logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level=level)
    model.compile(backend="eager")
    for _ in range(2):
        model(images())
    assert calls(seen) == ["net", "net"]
    (call, _) = (event for event in seen.events if isinstance(event, CallModule))
    (end, _) = (event for event in seen.events if isinstance(event, ReturnModule))
    assert (call.inputs, end.outputs, end.raised) == (("float32[4, 1, 8, 8]",), OUTPUTS, False)
    assert call.location
    assert call.compiled


def test_a_block_compiled_in_place_is_called_by_what_is_not(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    model.rest.compile(backend="eager")
    model(images())
    assert calls(seen) == ["net", "net.first", "net.rest"]
    assert Proxy._installed.get().thread.stack == []


def test_a_compiled_module_is_called_once(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    torch.compile(model, backend="eager")(images())
    assert calls(seen) == ["OptimizedModule(net)"]
    assert functions(seen) == []


def test_a_compiled_function_that_holds_a_module_is_recorded(level: str, logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level=level)

    @torch.compile(backend="eager")
    def predict(x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = model(x).softmax(1)
        return out

    predict(images())
    (event,) = functions(seen)
    assert event.target.endswith("predict)")
    assert (event.inputs, event.outputs, event.raised) == (("float32[4, 1, 8, 8]",), OUTPUTS, False)
    assert event.location


def test_a_compiled_function_of_something_else_is_for_debug(level: str, logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level=level)
    torch.compile(lambda x: x + 1, backend="eager")(images())
    assert len(functions(seen)) == (level == "DEBUG")


def test_an_exception_in_compiled_code_is_recorded(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    model.compile(backend="eager")
    with pytest.raises(RuntimeError):
        model(torch.ones(2, 3))
    assert [event.raised for event in seen.events if isinstance(event, ReturnModule)] == [True]
    model(images())
    assert [event.raised for event in seen.events if isinstance(event, ReturnModule)] == [True, False]


def test_a_compiled_step_of_an_optimizer_is_a_step(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    optimizer = torch.optim.Adam(model.parameters())
    step: Any = torch.compile(optimizer.step, backend="eager")
    for _ in range(2):
        F.cross_entropy(model(images()), labels()).backward()
        step()
    assert sum(isinstance(event, OptimizerStep) for event in seen.events) == 2
    assert [event.optimizer for event in seen.events if isinstance(event, OptimizerStepEnd)] == ["Adam"] * 2
    assert sum(isinstance(event, Update) and event.cause == "step" for event in seen.events) == 8


def test_a_compiled_wrapper_of_an_optimizer_leaves_updates(logdir: str, seen: MemoryObserver) -> None:
    """The way of PyTorch's own recipe."""
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    optimizer = torch.optim.Adam(model.parameters())

    @torch.compile(backend="eager")
    def step() -> None:
        optimizer.step()

    F.cross_entropy(model(images()), labels()).backward()
    step()
    Proxy.flush()
    assert len({event.tensor for event in seen.events if isinstance(event, Update)}) == 4


def test_a_module_without_tensors_of_its_own_may_be_compiled(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Sequential(nn.ReLU(), nn.Flatten()), recurse=True, name="net", logdir=logdir)
    model[0].compile(backend="eager")
    model(images())
    assert calls(seen) == ["net", "net.0", "net.1"]
