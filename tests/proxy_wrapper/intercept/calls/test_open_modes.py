"""Modes and contexts of the program's own that are opened before a proxy is attached and closed after, and conversely.

Attaching and detaching happen at any nesting; the stacks of modes must come out as they would have without.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.intercept.calls.torch_calls import take_off
from tests.conformance.bits import difference, frozen
from tests.proxy_wrapper.programs import Branching, Plain, images, labels, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Functions(TorchFunctionMode):
    """Keeps the names of the functions it sees, and doubles what `tanh` gives."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(getattr(func, "__name__", "?"))
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.tanh else out


class Operators(TorchDispatchMode):
    """Keeps the names of the operators it sees."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def default_device() -> Iterator[None]:
    torch.set_default_device("cpu")
    try:
        yield None
    finally:
        torch.set_default_device(None)


@contextlib.contextmanager
def profiled() -> Iterator[None]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        yield None


@contextlib.contextmanager
def nested(*modes: Any) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        for mode in modes:
            stack.enter_context(mode)
        yield modes


CONTEXTS: dict[str, Callable[[], Any]] = {
    "a function mode": Functions,
    "a dispatch mode": Operators,
    "a flop counter": lambda: FlopCounterMode(display=False),
    "with torch.device": lambda: torch.device("cpu"),
    "set_default_device": default_device,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "anomaly detection": lambda: torch.autograd.set_detect_anomaly(True),
    "saved-tensor hooks": lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t),
    "a profiler": profiled,
    "a function mode over a dispatch mode": lambda: nested(Functions(), Operators()),
}


def step(model: nn.Module) -> Any:
    loss = F.cross_entropy(model(images()).float(), labels())
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(0.1 * parameter.grad)  # type: ignore[operator]
            parameter.grad = None
    return loss.detach()


def seen_by(context: Any) -> Any:
    if isinstance(context, FlopCounterMode):
        return context.get_total_flops()
    if isinstance(context, tuple):
        return [mode.names for mode in context]
    return getattr(context, "names", None)


def depths() -> tuple[int, int]:
    return torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()


@pytest.mark.sample(30)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("order", ["opened before, closed after", "opened after, closed before", "across detaching"])
@pytest.mark.parametrize("make", CONTEXTS.values(), ids=CONTEXTS)
def test_contexts_see_and_do_the_same(make: Callable[[], Any], order: str, level: str, logdir: str) -> None:
    def run(traced: bool) -> Any:
        torch.manual_seed(0)
        model = Plain() if make is not CONTEXTS["autocast"] else Branching()
        torch.manual_seed(1)

        def attach() -> None:
            if traced:
                Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level)

        def detach() -> None:
            if traced:
                Proxy.unproxy(model)

        context = make()
        losses = []
        if order == "opened before, closed after":
            with context as opened:
                losses.append(step(model))
                attach()
                losses += [step(model), step(model)]
                detach()
                losses.append(step(model))
        elif order == "opened after, closed before":
            attach()
            losses.append(step(model))
            with context as opened:
                losses += [step(model), step(model)]
            losses.append(step(model))
            detach()
        else:
            attach()
            opened = context.__enter__()
            losses += [step(model), step(model)]
            detach()
            losses.append(step(model))
            context.__exit__(None, None, None)
            losses.append(step(model))
        return frozen([losses, state_of(model), seen_by(opened), depths(), torch.get_rng_state()])

    assert difference(run(traced=False), run(traced=True)) is None
    assert depths() == (0, 0)


def test_a_proxy_attached_by_a_mode_while_it_handles_a_call(logdir: str) -> None:
    model = Plain()

    class Attaches(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.tanh:
                Proxy.Proxy(model, recurse=True, logdir=logdir, log_level="DEBUG")
            return func(*args, **(kwargs or {}))

    plain = model(images())
    with Attaches():
        assert torch.equal(model(images()), plain)
        assert torch.equal(model(images()), plain)
    assert torch.equal(model(images()), plain)


def test_a_model_unproxied_inside_its_own_forward(level: str, logdir: str) -> None:
    class Stops(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> Any:
            x = self.inner(x)
            Proxy.unproxy(self)
            return torch.relu(self.inner(x))

    model = Stops()
    plain = model(torch.ones(1, 3))
    Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level)
    assert torch.equal(model(torch.ones(1, 3)), plain)
    assert torch.equal(model(torch.ones(1, 3)), plain)
    assert depths() == (0, 0)


def test_a_model_unproxied_inside_a_backward_pass(level: str, logdir: str) -> None:
    """The pass is a torch call: torch puts the mode back once it ends, and nobody is there to take it off again."""
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level=level)
    out = model(images())
    out.register_hook(lambda gradient: Proxy.unproxy(model) and None)
    out.sum().backward()
    model(images()).sum().backward()
    stack = [torch._C._get_function_stack_at(depth) for depth in range(depths()[0])]
    assert [mode.is_on for mode in stack] == [False] * (level == "DEBUG")
    for mode in stack:
        take_off(mode)
