"""A bend inside of what is one node of a graph is an error of that graph, which would compute without it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_views import Capture, Scale, bend
from proxy_views.errors import BentInsideError


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.second(torch.relu(self.first(x)))


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.attend = Inner(), nn.MultiheadAttention(4, 2, batch_first=True)
        self.last = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(self.attend(x, x, x)[0] + self.inner(x))


@pytest.mark.parametrize("target", ["inner.second", "inner.second.weight", "relu"])
def test_inside_a_module_that_was_chosen_to_be_one_node(target: str) -> None:
    model, x = Outer().eval(), torch.randn(2, 3, 4)
    with bend(model, target.replace(".", r"\."), Scale(2.0)), Proxy.trace(model) as trace:
        bent = model(x)
    with pytest.raises(BentInsideError, match=r"inside 'inner', which is one node .*`leaf_modules`"):
        trace.graph(leaf_modules=["inner"])
    assert torch.equal(trace.graph()(x), bent)


def test_inside_a_module_that_nobody_may_look_into() -> None:
    model, x = Outer().eval(), torch.randn(2, 3, 4)
    with bend(model, r"attend\.in_proj_weight", Scale(2.0)), Proxy.trace(model) as trace:
        model(x)
    with pytest.raises(BentInsideError, match=r"'attend.in_proj_weight' is bent inside 'attend', .*bend its output"):
        trace.graph()
    assert trace.activations("relu")  # What was computed is known all the same.


def test_inside_a_function_that_was_named_as_one_node() -> None:
    model = Outer().eval()

    class Calling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.outer = model

        def forward(self, x: torch.Tensor) -> Any:
            return through(self.outer, x) + 1

    def through(of: nn.Module, x: torch.Tensor) -> Any:
        return of(x) * 2

    caller, x = Calling(), torch.randn(2, 3, 4)
    with bend(caller, r"outer\.inner", Scale(2.0)), Proxy.trace(caller, leaf_functions=[through]) as trace:
        caller(x)
    with pytest.raises(BentInsideError, match="through"):
        trace.graph()


@pytest.mark.parametrize("target", ["inner", "attend", "last", "", r"last\.weight", "add"])
def test_around_it_bends_are_nodes(target: str) -> None:
    model, x = Outer().eval(), torch.randn(2, 3, 4)
    with bend(model, target, Scale(2.0)), Proxy.trace(model) as trace:
        bent = model(x)
    assert torch.equal(trace.graph(leaf_modules=["inner"])(x), bent)
    assert not torch.equal(bent, model(x))


def test_what_only_looks_bends_nothing() -> None:
    model, x = Outer().eval(), torch.randn(2, 3, 4)
    with bend(model, r"inner\.second", Capture()), Proxy.trace(model) as trace:
        out = model(x)
    assert torch.equal(trace.graph(leaf_modules=["inner"])(x), out)
