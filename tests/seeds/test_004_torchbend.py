"""What torchbend's tracer does with a model: each line of its checklist that is about graphs, by its number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import fx, nn

import proxy_wrapper.proxy as Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proxy_views.live_trace import LiveTrace


@pytest.fixture(autouse=True)
def _no_tracer_is_left() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    Proxy._installed.take_down()


class Channels(nn.Module):
    """Goes through the channels of its input by calling itself, and chooses by the values."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_modules = nn.ModuleList([nn.Conv1d(1, 1, 3, padding=1), nn.Conv1d(1, 1, 3, padding=1)])
        self.batch_norm = nn.BatchNorm1d(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > 1:
            return torch.cat([self.forward(x[:, channel][:, None]) for channel in range(x.shape[1])], dim=1)
        y: torch.Tensor = self.batch_norm(self.conv_modules[0](x))
        if y.sum() > 1e9:
            y = self.conv_modules[1](y)
        return y


def traced(model: nn.Module, *args: Any, **keywords: Any) -> LiveTrace:
    with Proxy.trace(model) as trace:
        model(*args, **keywords)
    return trace


def called(graph: fx.GraphModule) -> list[str]:
    return [node.name for node in graph.graph.nodes if node.op.startswith("call")]


def test_b1_a_model_that_fx_refuses() -> None:
    with pytest.raises(Exception, match=r"symbolically traced|Proxy"):
        fx.symbolic_trace(Channels())
    graph = traced(Channels(), torch.randn(1, 1, 16)).graph(leaf_modules=True)
    assert [node.name for node in graph.graph.nodes if node.op == "call_module"] == ["conv_modules_0", "batch_norm"]


def test_b2_recursion_over_channels_is_unrolled() -> None:
    trace = traced(Channels().eval(), torch.randn(1, 2, 16))
    found = list(trace.activations(".*", leaf_modules=True))
    nodes = [name for name in found if "." not in name and "@" not in name]
    assert nodes == [
        "x",
        *("getitem", "getitem_1", "conv_modules_0", "batch_norm", "sum_1", "gt"),
        *("getitem_2", "getitem_3", "conv_modules_1", "batch_norm_1", "sum_2", "gt_1"),
        "cat",
    ]
    x = torch.randn(1, 2, 16)
    assert torch.equal(trace.graph()(x), trace.graph(leaf_modules=True)(x))


def test_b4_a_branch_on_a_value_is_frozen_at_its_line() -> None:
    class Logical(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.all():
                return x + 1
            return x - 1

    trace = traced(Logical(), torch.zeros(3))
    assert called(trace.graph()) == ["all_1", "sub"]
    (step,) = trace.frozen
    assert (step.what, step.value) == ("__bool__", False)
    assert step.place is not None
    line = Logical.forward.__code__.co_firstlineno + 1
    assert (step.place.line, step.place.file) == (line, __file__)


class Shape(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.shape[0]


def test_b5_sizes_stay_live() -> None:
    trace = traced(Shape(), torch.ones(4))
    assert torch.equal(trace.graph()(torch.ones(6)), torch.full((6,), 6.0))
    assert trace.frozen == []


def test_b6_a_loop_over_a_number_is_unrolled() -> None:
    class Loop(nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            for _ in range(n):
                x = x * 2
            return x

    trace = traced(Loop(), torch.ones(2), 4)
    assert called(trace.graph()) == ["mul", "mul_1", "mul_2", "mul_3"]
    assert trace.frozen == []
    assert torch.equal(trace.graph()(torch.ones(2), 4), torch.full((2,), 16.0))


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
def test_b8_another_path_is_an_error_where_shapes_forbid_it(first: int, second: int) -> None:
    graph = traced(Channels().eval(), torch.randn(1, first, 16)).graph()
    with pytest.raises((RuntimeError, IndexError)):
        graph(torch.randn(1, second, 16))


def test_b9_the_table_of_activations(tmp_path: Path) -> None:
    trace = traced(Channels().eval(), torch.randn(1, 1, 16))
    header, *rows = trace.table(leaf_modules=True).splitlines()
    assert header.split() == ["name", "op", "target", "type", "shape"]
    assert rows[1].split(maxsplit=4) == ["conv_modules_0", "call_module", "conv_modules.0", "float32", "(1, 1, 16)"]
    out = tmp_path / "activations.txt"
    shown = trace.table(op="call_module", flt=".*o.*", exclude="batch.*", out=out, leaf_modules=True)
    assert [row.split()[0] for row in shown.splitlines()[1:]] == ["conv_modules_0"]
    assert out.read_text() == shown + "\n"
    assert str(trace).splitlines()[0].split() == header.split()


def test_b10_activations_by_their_names() -> None:
    model = Channels().eval()
    x = torch.randn(1, 1, 16)
    found = traced(model, x).activations("conv.*", leaf_modules=True)
    assert torch.equal(found["conv_modules_0"], model.conv_modules[0](x))
    assert found["conv_modules.0"] is found["conv_modules_0"]


def test_b11_computing_on_from_an_activation() -> None:
    model = nn.Sequential()
    model.conv_modules = nn.Sequential(nn.Conv1d(1, 1, 3), nn.Conv1d(1, 1, 3))
    model.last = nn.Tanh()
    x = torch.randn(1, 1, 16)
    trace = traced(model, x)
    given = trace.activations("conv_modules_1", leaf_modules=True)["conv_modules_1"]
    for leaf_modules in (True, False):
        graph = trace.graph(start="conv_modules_1", leaf_modules=leaf_modules)
        assert torch.equal(graph(given), model(x))


def test_b25_the_table_of_weights() -> None:
    model = Channels()
    shown = str(traced(model, torch.randn(1, 1, 16)).weights())
    header, *rows = shown.splitlines()
    assert header.split() == ["name", "shape", "dtype", "min", "max", "mean", "stddev"]
    assert [row.split()[0] for row in rows] == list(model.state_dict())
