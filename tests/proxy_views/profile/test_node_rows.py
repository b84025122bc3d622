"""What the nodes of a graph cost, where a graph and a profile were asked for of the same block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import proxy_wrapper.proxy as Proxy
from tests.proxy_views.profile.models import CNN, Twice

if TYPE_CHECKING:
    from proxy_views.live_trace import LiveTrace


class Checkpointed(nn.Module):
    def __init__(self, *, is_reentrant: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.is_reentrant = is_reentrant

    def forward(self, x: torch.Tensor) -> Any:
        return checkpoint(self.second, torch.relu(self.first(x)), use_reentrant=self.is_reentrant)


def traced(model: nn.Module, x: torch.Tensor) -> LiveTrace:
    with Proxy.trace(model, profile=True) as trace:
        model(x).sum().backward()
    return trace


def rows_of(graph: torch.fx.GraphModule) -> dict[str, Any]:
    return {node.name: node.meta["profile"] for node in graph.graph.nodes if "profile" in node.meta}


@pytest.mark.parametrize("leaf_modules", [False, True])
@pytest.mark.parametrize(("make", "shape"), [(CNN, (2, 3, 32, 32)), (Twice, (2, 4))])
def test_what_the_nodes_take_is_what_the_model_takes(
    make: type[nn.Module], shape: tuple[int, ...], leaf_modules: bool
) -> None:
    trace = traced(make(), torch.randn(shape))
    graph, model = trace.graph(leaf_modules=leaf_modules), trace.profile()[""]
    rows = rows_of(graph)
    assert rows.keys() == {node.name for node in graph.graph.nodes if node.op.startswith("call")}
    assert sum(row.forward_flops or 0 for row in rows.values()) == (model.forward_flops or 0) > 0
    assert sum(row.backward_flops or 0 for row in rows.values()) == (model.backward_flops or 0) > 0
    assert sum(row.saved_bytes for row in rows.values()) == model.saved_bytes


def test_a_node_has_the_numbers_of_its_operations() -> None:
    trace = traced(CNN(), torch.randn(2, 3, 32, 32))
    rows, profile = rows_of(trace.graph()), trace.profile()
    found, wanted = rows["conv2d"], profile["conv1.convolution"]
    assert found._replace(kind=wanted.kind, name=wanted.name, type=wanted.type) == wanted
    assert (found.kind, found.name, found.type, found.module) == ("node", "conv2d", "conv2d", "conv1")
    leaf, module = rows_of(trace.graph(leaf_modules=True))["fc"], profile["fc"]
    assert leaf.parameter_bytes == module.parameter_bytes == 4 * (10240 + 10)
    assert (leaf.forward_flops, leaf.backward_flops) == (module.forward_flops, module.backward_flops)
    assert (leaf.output_bytes, leaf.temporary_bytes) == (module.output_bytes, module.temporary_bytes)


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_of_a_reentrant_checkpoint_the_backward_pass_belongs_to_what_it_computes_again(is_reentrant: bool) -> None:
    trace = traced(Checkpointed(is_reentrant=is_reentrant), torch.randn(2, 4))
    rows = rows_of(trace.graph(checkpoint=False))
    assert rows["linear_1"].forward_flops == 64
    assert rows["linear_1"].backward_flops == (None if is_reentrant else 128)
    assert rows["linear"].backward_flops == 64  # The input needs no gradient.


def test_parts_of_a_node_and_what_stands_in_for_one_cost_nothing_of_their_own() -> None:
    trace = traced(CNN(), torch.randn(2, 3, 32, 32))
    split = rows_of(trace.graph(split_bias=True))
    assert split.keys() == rows_of(trace.graph()).keys() - {"conv2d", "conv2d_1", "linear"}
    assert "profile" not in next(iter(trace.graph(start="relu").graph.nodes)).meta


def test_within_the_block_or_without_being_asked_there_are_none() -> None:
    model = Twice()
    with Proxy.trace(model, profile=True) as trace:
        model(torch.ones(2, 4))
        assert not rows_of(trace.graph())
    with Proxy.trace(model) as plain:
        model(torch.ones(2, 4))
    assert rows_of(trace.graph())
    assert not rows_of(plain.graph())
    trace.close()
