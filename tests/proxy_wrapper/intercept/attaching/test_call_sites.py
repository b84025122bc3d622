"""Warnings and tracebacks are those of the untraced program: they name its lines, and none of ours."""

from __future__ import annotations

import gc
import sys
import traceback
import warnings
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import grad

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import CallFunction
from proxy_wrapper.places.location import UNCOUNTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver

RUNTIME = str(Path(Proxy.__file__).parent)


def warn_in_torch() -> None:
    """By torch's C++ code, by one of its Python functions, by one that counts frames, by one that a module calls."""
    ones = torch.ones(2, 3, requires_grad=True)
    float(ones.sum())
    F.mse_loss(torch.ones(2, 3), torch.ones(3))
    F.softmax(ones)
    nn.MSELoss()(torch.ones(2, 3), torch.ones(3))
    _ = (ones * 2).grad


def warned() -> list[tuple[str, int, str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_in_torch()
    return [(each.filename, each.lineno, str(each.message)) for each in caught]


def test_warnings_name_the_lines_that_they_name_without_us(level: str, logdir: str) -> None:
    warned()  # There are some that torch gives only once.
    plain = warned()
    model = Proxy.Proxy(nn.Linear(3, 3), logdir=logdir, log_level=level)
    assert warned() == plain
    assert len(plain) >= 4
    del model


def warn(name: str) -> None:
    for stacklevel in range(2, 5):
        warnings.warn(f"{name}, {stacklevel}", stacklevel=stacklevel)


class WarningFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        warn("forward")
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        warn("backward")
        return gradients[0] * 2


class WarningModule(nn.Linear):
    def __getattr__(self, name: str) -> Any:
        if name == "weight":
            warn("__getattr__")
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "size":
            warn("__setattr__")
        super().__setattr__(name, value)


class WarningOptimizer(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        warn("step")
        return super().step(closure)


def warn_in_python(model: Any) -> None:
    """From code that torch calls back: by the line that warns, and by those that called it."""
    apply: Any = WarningFunction.apply
    x = torch.ones(3, requires_grad=True)
    x.register_hook(lambda _: warn("hook"))
    loss = apply(x * model.weight).sum()
    model.size = 3
    loss.backward(retain_graph=True)
    torch.autograd.backward(loss, retain_graph=True)
    grad(loss, x, only_inputs=False)
    torch.autograd.grad(apply(x).sum(), x, create_graph=True)
    optimizer = WarningOptimizer(model.parameters())
    torch.optim.lr_scheduler.StepLR(optimizer, 1).step()
    optimizer.step()


@pytest.mark.parametrize("shown", ["always", "default"])
def test_warnings_of_code_that_torch_calls_name_the_same_lines_as_often(shown: Any, level: str, logdir: str) -> None:
    def run(prepare: Callable[[nn.Module], nn.Module]) -> list[tuple[str, int, str]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = prepare(WarningModule(3, 1))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(shown)
            warn_in_python(model)
            warn_in_python(model)
        return [(each.filename, each.lineno, str(each.message)) for each in caught]

    run(lambda model: model)
    plain = run(lambda model: model)
    traced = run(lambda model: Proxy.Proxy(model, logdir=logdir, log_level=level))
    assert len(plain) >= 24
    assert traced == plain


def test_filters_by_module_hold(level: str, logdir: str) -> None:
    model = Proxy.Proxy(nn.Linear(3, 3), logdir=logdir, log_level=level)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", module=__name__.replace(".", r"\."))
        with pytest.raises(UserWarning, match="target size"):
            F.mse_loss(torch.ones(2, 3), torch.ones(3))
        nn.MSELoss()(torch.ones(2, 3), torch.ones(3))  # That line is torch's.
    del model


def test_what_is_shown_once_is_shown_once_for_each_line(level: str, logdir: str) -> None:
    model = Proxy.Proxy(nn.Linear(3, 3), logdir=logdir, log_level=level)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            F.mse_loss(torch.ones(2, 4), torch.ones(4))
            F.mse_loss(torch.ones(2, 4), torch.ones(4))
    assert len(caught) == 2
    del model


def second_backward() -> None:
    loss = nn.Linear(3, 3)(torch.ones(3)).exp().sum()
    loss.backward()
    loss.backward()


@pytest.mark.parametrize(
    "fail",
    [
        lambda _: torch.ones(2, 3) @ torch.ones(7, 7),
        lambda _: F.cross_entropy(torch.ones(2, 3), torch.ones(9)),
        lambda model: model(torch.ones(5, 5)),
        lambda model: model.missing,
        lambda model: delattr(model, "missing"),
        lambda model: setattr(model, "weight", "no parameter"),
        lambda model: model(torch.ones(3)).backward(),
        lambda _: second_backward(),
        lambda _: torch.autograd.grad(torch.ones(()), torch.ones(())),
        lambda _: torch.ones(()).missing,  # type: ignore[attr-defined]
    ],
)
@pytest.mark.skipif(sys.version_info < (3, 11), reason="3.10 keeps the traceback of an error being handled for itself")
def test_errors_have_no_code_of_ours_in_their_traceback(fail: Callable[[Any], Any], level: str, logdir: str) -> None:
    model = Proxy.Proxy(nn.Linear(3, 3), logdir=logdir, log_level=level)
    with pytest.raises((RuntimeError, AttributeError, TypeError, ValueError)) as plain:
        fail(nn.Linear(3, 3))
    with pytest.raises((RuntimeError, AttributeError, TypeError, ValueError)) as raised:
        fail(model)
    assert str(raised.value) == str(plain.value)
    frames = traceback.extract_tb(raised.value.__traceback__)
    ours = (RUNTIME, UNCOUNTED)
    assert not [frame for frame in frames if frame.filename.startswith(ours) or frame.name == "<proxy_wrapper>"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="3.10 keeps the traceback of an error being handled for itself")
def test_an_interrupt_inside_a_torch_call_has_no_code_of_ours_in_its_traceback(
    logdir: str, seen: MemoryObserver
) -> None:
    class Interrupting(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *_: Any) -> Any:
            raise KeyboardInterrupt

    tensor = torch.ones(2).as_subclass(Interrupting)
    model = Proxy.Proxy(nn.Linear(3, 3), logdir=logdir, log_level="DEBUG")
    with pytest.raises(KeyboardInterrupt) as raised:
        torch.add(tensor, 1)
    assert [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)][1:] == ["__torch_function__"]
    calls = [event for event in seen.events if isinstance(event, CallFunction) and event.target == "torch.add"]
    assert [call.raised for call in calls] == [True]
    del model


def test_the_globals_of_code_that_called_torch_are_free_to_go(level: str, logdir: str) -> None:
    model = Proxy.Proxy(nn.Linear(3, 3), logdir=logdir, log_level=level)
    scope: dict[str, Any] = {}
    exec("import torch\nnet = torch.nn.Linear(2, 2)\nx = torch.ones(2) * 2\ny = net(x)", scope)
    net = weakref.ref(scope["net"])
    del scope
    gc.collect()
    assert net() is None
    del model
