"""Torch checks what it has kept as it does without hooks, and programs that look at it find what they would."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

import proxy_wrapper.proxy as Proxy
from proxy_views.profile import Profiler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def profiler() -> Iterator[Profiler]:
    found = Profiler(None)
    yield found
    found.end()


def change_an_output() -> None:
    y = torch.randn(3, requires_grad=True).exp()
    y.mul_(2)
    y.sum().backward()


def change_an_input() -> None:
    z = torch.randn(2, 3, requires_grad=True) * 2
    y = z * z
    z.add_(1)
    y.sum().backward()


def change_a_constant() -> None:
    constant = torch.ones(3)
    y = torch.randn(3, requires_grad=True) * constant
    constant.add_(1)
    y.sum().backward()


def change_a_view_of_an_output() -> None:
    y = torch.randn(3, requires_grad=True).exp()
    y[:2].mul_(3)
    y.sum().backward()


def change_a_weight() -> None:
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    y = second(first(torch.ones(1, 3))).sum()
    with torch.no_grad():
        second.weight.mul_(2)
    y.backward()


def change_through_a_slice() -> None:
    z = torch.randn(4, requires_grad=True) * 1
    z[1:].add_(1)
    y = z * z
    z.view(2, 2)[0] = 2
    y.sum().backward()


CHANGES = [
    change_an_output,
    change_an_input,
    change_a_constant,
    change_a_view_of_an_output,
    change_a_weight,
    change_through_a_slice,
]


def message_of(program: Callable[[], None]) -> str:
    with pytest.raises(RuntimeError) as raised:
        program()
    return str(raised.value)


@pytest.mark.parametrize("program", CHANGES)
def test_a_change_between_the_passes_is_the_error_that_torch_has(
    program: Callable[[], None], profiler: Profiler
) -> None:
    wanted = message_of(program)
    profiler.begin()
    assert message_of(program) == wanted


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Error detected in ExpBackward0")
def test_the_error_is_the_same_under_anomaly_detection(profiler: Profiler) -> None:
    with torch.autograd.set_detect_anomaly(True):
        wanted = message_of(change_an_output)
        profiler.begin()
        assert message_of(change_an_output) == wanted


def test_a_graph_that_is_gone_is_the_error_that_torch_has(profiler: Profiler) -> None:
    def twice() -> None:
        y = torch.randn(3, requires_grad=True).exp().sum()
        y.backward()
        y.backward()

    wanted = message_of(twice)
    profiler.begin()
    assert message_of(twice) == wanted


class Tagged(torch.autograd.Function):
    """Looks at an attribute of what it has saved, as fused layers do."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        weight.main_grad.add_(gradient * x)
        return gradient * weight, None


def test_a_function_of_the_program_finds_the_very_objects_that_it_has_saved() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))
            self.sums = torch.zeros(3)
            setattr(self.weight, "main_grad", self.sums)  # noqa: B010  The type of parameters has no such attribute.

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = Tagged.apply(x * 2, self.weight)  # type: ignore[no-untyped-call]
            return found

    model = Model()
    with Proxy.trace(model, profile=True) as trace:
        model(torch.ones(3, requires_grad=True)).sum().backward()
    assert torch.equal(model.sums, torch.full((3,), 2.0))
    assert trace.profile().saved_bytes == 12  # x * 2; the weight is a parameter.


def test_the_transforms_of_torch_func_work(profiler: Profiler) -> None:
    wanted = torch.func.jacrev(torch.sin)(torch.arange(3.0))
    profiler.begin()
    assert torch.equal(torch.func.jacrev(torch.sin)(torch.arange(3.0)), wanted)
    assert torch.equal(torch.func.grad(lambda x: x.pow(3))(torch.tensor(2.0)), torch.tensor(12.0))
    torch.ones(3, requires_grad=True).exp()
    profiler.end()
    assert profiler.profile().saved_bytes == 12


def test_the_program_s_own_hooks_come_first(profiler: Profiler) -> None:
    seen: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(tensor)
        return tensor.detach()

    profiler.begin()
    x = torch.randn(3, requires_grad=True)
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        inside = x.exp()
    outside = x.exp()
    (inside + outside).sum().backward()
    with save_on_cpu():
        x.exp().sum().backward()
    profiler.end()
    assert len(seen) == 1
    assert profiler.profile().saved_bytes == 12


def test_a_block_inside_of_the_program_s_hooks_sees_what_is_saved() -> None:
    seen: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(tensor)
        return tensor.detach()

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        profiler = Profiler(None)
        profiler.begin()
        torch.randn(3, requires_grad=True).exp()
        profiler.end()
        torch.randn(3, requires_grad=True).exp()
    assert (len(seen), profiler.profile().saved_bytes) == (1, 12)


class Kept:
    """Lives as long as the node of autograd that has it."""


def test_an_output_that_is_saved_goes_with_its_graph(profiler: Profiler) -> None:
    profiler.begin()
    y = torch.randn(3, requires_grad=True).exp()
    assert y.grad_fn is not None
    kept = Kept()
    y.grad_fn.metadata["kept"] = kept  # type: ignore[index]
    gone = weakref.ref(kept)
    del y, kept
    gc.collect()
    assert gone() is None


def test_what_was_saved_in_the_block_is_used_behind_it(profiler: Profiler) -> None:
    x = torch.randn(3, requires_grad=True)
    wanted = torch.autograd.grad(x.exp().sum(), x)[0]
    profiler.begin()
    y = x.exp().sum()
    profiler.end()
    assert torch.equal(torch.autograd.grad(y, x)[0], wanted)
    y = x.exp()
    assert profiler.profile().saved_bytes == 12
