"""What was computed can be had by name, printed as a table, and be computed on from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_views.errors import UnknownNameError

if TYPE_CHECKING:
    from pathlib import Path

    from proxy_views.live_trace import LiveTrace


class Net(nn.Module):
    convs: Any

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(2, 2, 3, padding=1) for _ in range(3)])
        self.norm = nn.BatchNorm1d(2)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = x * 2
        for conv in self.convs:
            x = conv(x)
        y: torch.Tensor = self.relu(self.norm(x)) + skip
        return y


@pytest.fixture
def model() -> Net:
    return Net()


@pytest.fixture
def trace(model: Net) -> LiveTrace:
    with Proxy.trace(model) as trace:
        model(torch.randn(2, 2, 5))
    return trace


def test_activations_have_the_names_of_nodes_and_modules(model: Net, trace: LiveTrace) -> None:
    found = trace.activations(r"convs\.\d|conv1d.*")
    assert list(found) == ["conv1d", "conv1d_1", "conv1d_2", "convs.0", "convs.1", "convs.2"]
    assert torch.equal(found["convs.1"], model.convs[1](found["conv1d"]))
    assert found["convs.2"] is found["conv1d_2"]
    assert trace.activations("conv") == {}


def test_names_of_leaf_modules_are_those_of_fx(trace: LiveTrace) -> None:
    assert list(trace.activations("convs_.", leaf_modules=True)) == ["convs_0", "convs_1", "convs_2"]


def test_what_was_changed_in_place_is_left_out_and_named(trace: LiveTrace) -> None:
    found = trace.activations("batch_norm|norm|relu")
    assert sorted(found) == ["relu"]
    assert set(found.overwritten) == {"batch_norm", "norm"}


def test_a_second_call_of_a_module_has_a_number() -> None:
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, nn.Tanh(), layer)
    with Proxy.trace(model) as trace:
        model(torch.randn(1, 2))
    assert list(trace.activations("0.*")) == ["0", "0@1"]


def test_the_table_has_a_row_for_each_node(trace: LiveTrace, tmp_path: Path) -> None:
    lines = str(trace).splitlines()
    assert lines[0].split() == ["name", "op", "target", "type", "shape"]
    assert re.fullmatch(
        r"conv1d_1 +call_function +conv1d +float32 +\(2, 2, 5\)",
        next(line for line in lines if line.startswith("conv1d_1 ")),
    )
    assert len(lines) == 1 + len(trace.graph().graph.nodes)
    rows = trace.table(op="call_function", flt="conv.*", exclude=".*_2", out=tmp_path / "table.txt").splitlines()
    assert [row.split()[0] for row in rows] == ["name", "conv1d", "conv1d_1"]
    assert (tmp_path / "table.txt").read_text() == "\n".join(rows) + "\n"


def test_weights_have_their_numbers(model: Net, trace: LiveTrace) -> None:
    found = {each.name: each for each in trace.weights(r"convs\.0\..*|norm.num_batches_tracked")}
    weight = model.convs[0].weight.detach().double()
    row = found["convs.0.weight"]
    assert (row.shape, row.dtype) == ((2, 2, 3), "float32")
    assert (row.min, row.max) == (float(weight.min()), float(weight.max()))
    assert (row.mean, row.stddev) == (float(weight.mean()), float(weight.std(correction=0)))
    assert found["norm.num_batches_tracked"].max == 1.0
    assert str(trace.weights()).splitlines()[0].split() == ["name", "shape", "dtype", "min", "max", "mean", "stddev"]


@pytest.mark.parametrize("start", ["convs_1", "convs.1", "conv1d_1"])
def test_a_graph_computes_on_from_an_activation(model: Net, trace: LiveTrace, start: str) -> None:
    model.eval()
    with Proxy.trace(model) as trace:
        x = torch.randn(2, 2, 5)
        wanted = model(x)
    graph = trace.graph(start=start)
    given = trace.activations("conv1d_1")["conv1d_1"]
    assert [node.name for node in graph.graph.nodes if node.op == "placeholder"] == ["conv1d_1", "x"]
    assert torch.equal(graph(given, x), wanted)
    assert torch.equal(graph(x=x, conv1d_1=given), wanted)
    names = [node.name for node in graph.graph.nodes]
    assert "conv1d" not in names
    assert not torch.equal(graph(given + 1, x), wanted)


def test_a_graph_ends_where_it_is_told(model: Net, trace: LiveTrace) -> None:
    x = torch.randn(3, 2, 4)
    assert torch.equal(trace.graph(stop="convs.1")(x), model.convs[1](model.convs[0](x)))
    first, second = trace.graph(stop=["conv1d", "conv1d_1"])(x)
    assert torch.equal(second, model.convs[1](first))
    between = trace.graph(start="convs.0", stop="convs.1")
    assert [node.op for node in between.graph.nodes] == [
        "placeholder",
        "get_attr",
        "get_attr",
        "call_function",
        "output",
    ]
    assert torch.equal(between(first), second)


def test_what_changes_a_tensor_that_is_kept_is_kept() -> None:
    class Writes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            base = torch.zeros(3)
            base[0] = 5
            torch.zeros(3)[1] = 7
            y = x * 2
            y += 1
            return y + base

    model = Writes()
    with Proxy.trace(model) as trace:
        wanted = model(torch.ones(3))
    graph = trace.graph(start="mul")
    assert torch.equal(graph(torch.full((3,), 2.0)), wanted)
    assert sum(node.name.startswith("setitem") for node in graph.graph.nodes) == 1


def test_an_unknown_name_is_an_error_with_the_nearest(trace: LiveTrace) -> None:
    with pytest.raises(UnknownNameError, match="conv1d_1"):
        trace.graph(start="conv1d_11")
