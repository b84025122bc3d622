"""Programs that put functions of their own in the place of torch's, and call those from them."""

from __future__ import annotations

import functools
import gc
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import CallFunction, CallMethod
from proxy_wrapper.intercept.attaching.replaced_functions import is_foreign

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def counting(function: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        calls.append(function.__name__)
        torch.empty(()).uniform_()  # What is drawn twice changes all that is drawn afterwards.
        return function(*args, **kwargs)

    return replacement


def train(model: Any, calls: list[str]) -> list[Any]:
    """Three steps, with what a run may show of itself."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        hidden = F.dropout(model(torch.rand(4, 8).add(1.0)), 0.5)
        loss = F.max_pool1d(torch.einsum("ij,ij->i", hidden, hidden)[None], 2).norm()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *model.parameters(), torch.get_rng_state(), list(calls)]


REPLACED = [
    (torch.Tensor, "add"),
    (torch.Tensor, "detach"),
    (torch.Tensor, "norm"),
    (torch.Tensor, "backward"),
    (F, "dropout"),
    (F, "max_pool1d"),
    (torch, "max_pool1d"),
    (torch, "einsum"),
    (torch.functional, "einsum"),
    (torch, "rand"),
]


@pytest.mark.parametrize(("owner", "name"), REPLACED, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_a_replacement_is_called_as_often_as_without_a_proxy(
    owner: Any, name: str, level: Any, logdir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    train(nn.Linear(8, 8), [])  # What torch imports for a first step makes tensors in some versions.
    monkeypatch.setattr(owner, name, counting(getattr(owner, name), calls))
    torch.manual_seed(0)
    plain = train(nn.Linear(8, 8), calls)
    calls.clear()
    torch.manual_seed(0)
    traced = train(Proxy.Proxy(nn.Linear(8, 8), logdir=logdir, log_level=level), calls)
    assert traced[-1] == plain[-1]
    assert all(torch.equal(one, other) for one, other in zip(traced[:-1], plain[:-1], strict=True))


def test_it_does_not_matter_that_what_was_loaded_is_frozen(logdir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(F, "dropout", counting(F.dropout, calls))
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level="DEBUG")
    gc.freeze()
    try:
        F.dropout(model(torch.ones(1, 2)), p=0.25)
    finally:
        gc.unfreeze()
    assert calls == ["dropout"]


def test_a_mock_that_passes_calls_on_is_called_once(logdir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backward: Any = torch.Tensor.backward
    mock = Mock(side_effect=lambda *args: backward(*args))
    monkeypatch.setattr(torch.Tensor, "backward", mock)
    model = Proxy.Proxy(nn.Linear(2, 1), logdir=logdir, log_level="DEBUG")
    mock(model(torch.ones(1, 2)).sum())
    assert mock.call_count == 1


def test_the_call_is_recorded_under_torch_s_name(
    logdir: str, seen: MemoryObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.Tensor, "cos", lambda self, cos=torch.Tensor.cos: cos(self))
    monkeypatch.setattr(F, "hardtanh", lambda x, hardtanh=F.hardtanh: hardtanh(x))
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level="DEBUG")
    F.hardtanh(torch.ones(2).cos())
    del model
    calls = [event.target for event in seen.events if isinstance(event, (CallFunction, CallMethod))]
    assert calls == ["torch.ones", "cos", "torch.nn.functional.hardtanh"]


@pytest.mark.parametrize(
    ("function", "foreign"),
    [
        (torch.add, False),
        (torch.Tensor.add, False),
        (torch.Tensor.backward, False),
        (vars(torch._C.TensorBase)["grad"].__get__, False),
        (torch.ops.aten.add, False),
        (F.dropout, False),
        (train, True),
        (Mock(), True),
    ],
    ids=["a function", "a method", "a method in Python", "an attribute", "an operator", "F", "the user's", "a mock"],
)
def test_what_is_torch_s_own(function: Any, foreign: bool) -> None:
    assert is_foreign(function) == foreign
