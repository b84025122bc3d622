"""Registered functions are rows, and are what they were outside of blocks."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import proxy_wrapper.proxy as Proxy
from proxy_views.profile import register_flop_impl, register_shape_impl
from proxy_views.profile.errors import FlopImplementationError, PlainFunctionError


def squared(x: torch.Tensor) -> torch.Tensor:
    return x @ x


@register_flop_impl(squared)
def _(x: torch.Tensor) -> tuple[int, int]:
    return x.shape[0], 10


def through_numpy(x: torch.Tensor, *, times: int = 2) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * times)


@register_shape_impl(through_numpy)
def _(x: torch.Tensor, *, times: int = 2) -> torch.Tensor:
    return torch.empty(x.shape, device=x.device)


class Squares(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 3))

    def forward(self) -> torch.Tensor:
        return squared(self.weight).relu()


class ThroughNumpy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return through_numpy(self.layer(x), times=3)


def test_it_stands_for_what_is_called_inside() -> None:
    model = Squares()
    with Proxy.trace(model, profile=True) as trace:
        model().sum().backward()
    for convention in ("torch", "siu"):
        profile = trace.profile(convention)
        row = profile["squared"]
        assert (row.kind, row.module, row.forward_flops, row.backward_flops) == ("function", "", 3, 10)
        assert "aten.mm" not in {each.type for each in profile.rows}
    assert trace.profile("torch")[""].forward_flops == 3
    assert trace.profile("torch").by_operation["squared"] == (3, 10)
    assert model.weight.grad is not None
    assert torch.equal(model.weight.grad, torch.full((3, 3), 6.0))


def test_its_code_is_its_own_again_behind_the_block() -> None:
    code = squared.__code__
    with Proxy.trace(Squares(), profile=True):
        assert squared.__code__ is not code
    assert squared.__code__ is code
    assert inspect.getsource(squared).startswith("def squared")


def test_a_shape_stands_in_where_there_is_no_data() -> None:
    fake = FakeTensorMode()
    with fake:
        model = ThroughNumpy()
        with Proxy.trace(model, profile=True) as trace:
            out = model(torch.ones(2, 3))
            out.sum().backward()
    assert out.shape == (2, 3)
    assert trace.profile()["through_numpy"].temporary_bytes == 24
    with pytest.raises(Exception, match=r"numpy|data"), fake:
        model(torch.ones(2, 3))


def test_with_data_the_function_itself_runs() -> None:
    model = ThroughNumpy()
    x = torch.ones(2, 3)
    wanted = model(x)
    with Proxy.trace(model, profile=True):
        assert torch.equal(model(x), wanted)


def test_on_meta_it_is_replaced_as_well() -> None:
    with torch.device("meta"):
        model = ThroughNumpy()
    with Proxy.trace(model, profile=True) as trace:
        assert model(torch.ones(2, 3, device="meta")).shape == (2, 3)
    assert trace.profile("torch")["layer"].forward_flops == 36


def test_what_is_no_plain_function_is_refused() -> None:
    with pytest.raises(PlainFunctionError, match="register_flop_formula"):
        register_flop_impl(torch.mm)
    with pytest.raises(PlainFunctionError):
        register_shape_impl(len)


def test_flops_are_two_whole_numbers() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x

    register_flop_impl(function)(lambda x: 3.5)

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    with pytest.raises(FlopImplementationError, match="two integers"), Proxy.trace(Model(), profile=True):
        Model()(torch.ones(1))
