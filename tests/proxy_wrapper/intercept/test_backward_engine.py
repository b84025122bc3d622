"""Torch calls that Python code makes inside a backward pass, at level DEBUG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Backward, BackwardEnd, CallFunction, CallModule, Module
from proxy_wrapper.intercept.torch_calls import TorchCallMode
from tests.proxy_wrapper.programs import Plain, images

if TYPE_CHECKING:
    from proxy_wrapper.observers.memory import MemoryObserver


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


def test_the_engine_is_left_as_it_was_found(logdir: str) -> None:
    entry = torch.autograd.graph._engine_run_backward
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level="DEBUG")
    assert torch.autograd.graph._engine_run_backward is not entry
    Proxy.Proxy(model, log_level="INFO")
    assert torch.autograd.graph._engine_run_backward is entry
    assert torch.autograd._engine_run_backward is entry  # type: ignore[attr-defined]


def test_a_module_called_by_a_hook_is_seen(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), name="net", logdir=logdir, log_level="DEBUG")
    out = model(torch.ones(1, 2))
    out.register_hook(lambda gradient: model(gradient).detach())
    out.sum().backward()
    assert sum(isinstance(event, CallModule) for event in seen.events) == 2
