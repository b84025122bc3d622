"""Backward passes are seen, however they are asked for, and at DEBUG the torch calls that Python code makes inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.autograd import backward, grad
from torch.utils.checkpoint import checkpoint

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Backward, BackwardEnd, CallFunction, CallModule, Gradient, Module
from proxy_wrapper.intercept.calls.torch_calls import TorchCallMode
from tests.proxy_wrapper.programs import Plain, images

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver


ENTRY = "_engine_run_backward"


def passes(observer: MemoryObserver) -> list[str]:
    return [event.function for event in observer.events if isinstance(event, Backward)]


def test_backward_of_a_tensor_is_seen_from_begin_to_end(level: str, logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level=level)
    model(images()).sum().backward()
    (begin,) = (event for event in seen.events if isinstance(event, Backward))
    (end,) = (event for event in seen.events if isinstance(event, BackwardEnd))
    assert (begin.function, begin.inputs, end.raised) == ("backward", ("float32[]",), False)
    assert begin.location


def twice(model: nn.Module, x: torch.Tensor) -> None:
    (gradient,) = grad(model(x).pow(2).sum(), [x], create_graph=True)
    gradient.sum().backward()


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        pytest.param(lambda m, x: torch.autograd.backward(m(x).sum()), ["backward"], id="torch.autograd.backward"),
        pytest.param(lambda m, x: torch.autograd.grad(m(x).sum(), [x]), ["grad"], id="torch.autograd.grad"),
        pytest.param(lambda m, x: backward(m(x).sum()), ["backward"], id="backward, imported before"),
        pytest.param(lambda m, x: grad(outputs=m(x).sum(), inputs=[x]), ["grad"], id="grad, imported before"),
        pytest.param(twice, ["grad", "backward"], id="double backward"),
        pytest.param(
            lambda m, x: grad([m(x)], [x], [torch.ones(3, 4, 10)], is_grads_batched=True), ["grad"], id="batched"
        ),
        pytest.param(lambda m, x: torch.func.grad(lambda x: m(x).sum())(x), ["grad"], id="torch.func.grad"),
        pytest.param(
            lambda m, x: torch.autograd.functional.jacobian(lambda x: m(x).sum(0), x), ["grad"] * 10, id="jacobian"
        ),
        pytest.param(
            lambda m, x: checkpoint(m, x, use_reentrant=False).sum().backward(), ["backward"], id="checkpoint"
        ),
        pytest.param(
            lambda m, x: checkpoint(m, x, use_reentrant=True).sum().backward(),
            ["backward", "backward"],
            id="checkpoint, the pass inside too",
        ),
    ],
)
def test_each_pass_is_seen_once(
    run: Callable[[nn.Module, torch.Tensor], Any],
    expected: list[str],
    level: str,
    logdir: str,
    seen: MemoryObserver,
) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level=level)
    run(model, images().requires_grad_())
    assert passes(seen) == expected
    assert sum(isinstance(event, BackwardEnd) for event in seen.events) == len(expected)
    assert all(event.location for event in seen.events if isinstance(event, Backward))
    assert Proxy._installed.get().thread.backward_passes == []


def test_a_backward_pass_that_raises_is_recorded_as_raised(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    loss = model(images()).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()
    assert [event.raised for event in seen.events if isinstance(event, BackwardEnd)] == [False, True]


def test_a_call_that_torch_refuses_is_no_pass(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        model(images()).backward()
    assert passes(seen) == []


def test_a_pass_is_seen_once_where_others_have_replaced_the_engine_between(
    logdir: str, seen: MemoryObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.autograd, ENTRY, getattr(torch.autograd, ENTRY))  # To be put back in the end.
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    ours = getattr(torch.autograd, ENTRY)
    setattr(torch.autograd, ENTRY, lambda *args, **kwargs: ours(*args, **kwargs))
    tracer = Proxy._installed.get()
    tracer.remove_interceptors()
    tracer.install_interceptors()
    model(images()).sum().backward()
    assert passes(seen) == ["backward"]
    Proxy._installed.take_down()
    model(images()).sum().backward()
    assert passes(seen) == ["backward"]


def test_gradients_are_recorded_when_the_outermost_pass_has_ended(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir)
    x = torch.ones(1, 2, requires_grad=True)
    for _ in range(2):
        model.zero_grad()
        checkpoint(model, x, use_reentrant=True).sum().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(0.1)
    kinds = [type(event) for event in seen.events if isinstance(event, (Backward, BackwardEnd, Gradient))]
    assert kinds == [Backward, Backward, BackwardEnd, BackwardEnd, Gradient, Gradient] * 2


def calls_in_backward(observer: MemoryObserver) -> list[str]:
    """What was called between the first `Backward` and the last `BackwardEnd`."""
    kinds = [type(event) for event in observer.events]
    begin = kinds.index(Backward)
    end = len(kinds) - 1 - kinds[::-1].index(BackwardEnd)
    return [event.target for event in observer.events[begin:end] if isinstance(event, CallFunction)]


def modes() -> list[type]:
    return [type(torch._C._get_function_stack_at(depth)) for depth in range(torch._C._len_torch_function_stack())]


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_recomputed_checkpoint_is_seen(use_reentrant: bool, logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level="DEBUG")
    x = images().requires_grad_()
    checkpoint(model, x, use_reentrant=use_reentrant).sum().backward()
    assert "torch.tanh" in calls_in_backward(seen)
    names = {event.id: event.name for event in seen.events if isinstance(event, Module)}
    owners = [names[e.module] for e in seen.events if isinstance(e, CallFunction) and e.target == "torch.tanh"]
    assert owners == ["net", "net"]
    assert modes() == [TorchCallMode]


def test_the_backward_of_a_function_is_seen(logdir: str, seen: MemoryObserver) -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return torch.add(gradients[0], gradients[0])

    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level="DEBUG")
    apply: Any = Double.apply
    apply(model(torch.ones(1, 2))).sum().backward()
    assert "torch.add" in calls_in_backward(seen)


def test_a_hook_on_a_tensor_is_seen(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level="DEBUG")
    out = model(torch.ones(1, 2))
    out.register_hook(torch.negative)
    torch.autograd.grad(out.sum(), list(model.parameters()))
    assert "torch.negative" in calls_in_backward(seen)


def test_modules_on_the_blacklist_are_recomputed_without_the_mode(logdir: str, seen: MemoryObserver) -> None:
    found: list[list[type]] = []

    class Attention(nn.MultiheadAttention):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            found.append(modes())
            return super().forward(*args, **kwargs)

    model = Proxy.Proxy(Attention(4, 1), logdir=logdir, log_level="DEBUG")
    x = torch.ones(2, 1, 4, requires_grad=True)
    checkpoint(lambda x: model(x, x, x)[0], x, use_reentrant=False).sum().backward()
    assert found == [[], []]
    assert modes() == [TorchCallMode]


def test_a_backward_pass_that_raises_leaves_the_stack_as_it_was(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level="DEBUG")
    out = model(torch.ones(1, 2)).sum()
    out.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.backward()
    assert modes() == [TorchCallMode]
    assert Proxy._installed.get().thread.torch_calls == 0


def test_the_engine_is_left_as_it_was_found(level: str, logdir: str) -> None:
    places = (torch.autograd, torch.autograd.graph)
    entries = [getattr(place, ENTRY) for place in places]
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level=level)
    assert not any(getattr(place, ENTRY) in entries for place in places)
    Proxy.unproxy(model)
    assert [getattr(place, ENTRY) for place in places] == entries


def test_a_module_called_by_a_hook_is_seen(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), name="net", logdir=logdir, log_level="DEBUG")
    out = model(torch.ones(1, 2))
    out.register_hook(lambda gradient: model(gradient).detach())
    out.sum().backward()
    assert sum(isinstance(event, CallModule) for event in seen.events) == 2
