"""A graph of a call can be copied and saved: it computes the same, and each tensor of its state has one name."""

from __future__ import annotations

import copy
import io
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import proxy_wrapper.proxy as Proxy
from tests.proxy_views.same_results import assert_same, outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import fx

pytestmark = pytest.mark.filterwarnings(
    "ignore:None of the inputs have requires_grad"
)  # Inside a reentrant checkpoint.


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 5


class Net(nn.Module):
    """Has what `torch.fx` cannot save, or copies twice."""

    count: torch.Tensor

    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(6)
        self.scale = nn.Parameter(torch.randn(6))
        self.register_buffer("count", torch.zeros(()), persistent=False)
        self.plain = torch.ones(6)

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        with torch.no_grad():
            y = self.norm(x)
        out: torch.Tensor = self.second(x) * self.scale + y
        return out

    def outer(self, x: torch.Tensor) -> Any:
        return self.again(self.inner, self.first(x).sin())

    def again(self, function: Callable[..., Any], x: torch.Tensor) -> Any:
        return function(x) if self.reentrant is None else checkpoint(function, x, use_reentrant=self.reentrant)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.again(self.outer, self.first(x)) * self.plain
        y = F.max_pool1d(y.contiguous(memory_format=torch.contiguous_format), 2).view(x.shape[0], -1)
        applied: torch.Tensor = Doubled.apply(torch.ops.aten.relu.default(y))  # type: ignore[no-untyped-call]
        return applied


def graph_of(reentrant: bool | None, leaf_modules: bool) -> fx.GraphModule:
    torch.manual_seed(0)
    model = Net(reentrant)
    with Proxy.trace(model) as trace:
        model(torch.randn(4, 6))
    return trace.graph(leaf_modules=leaf_modules)


def saved_and_loaded(graph: fx.GraphModule) -> Any:
    file = io.BytesIO()
    torch.save(graph, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("again", [copy.deepcopy, saved_and_loaded])
@pytest.mark.parametrize("leaf_modules", [False, True])
@pytest.mark.parametrize("reentrant", [None, False, True])
def test_it_is_whole_and_apart(reentrant: bool | None, leaf_modules: bool, again: Any) -> None:
    graph = graph_of(reentrant, leaf_modules)
    other = again(graph)
    assert state_names(other) == state_names(graph)
    assert not {id(each) for each in (*graph.parameters(), *graph.buffers())} & {
        id(each) for each in (*other.parameters(), *other.buffers())
    }
    x = torch.randn(5, 6)
    assert_same(outcome_of(other, other, (x,)), outcome_of(graph, graph, (x,)))
    assert other.get_buffer("count").item() == graph.get_buffer("count").item()
    # What becomes of its state is seen in its checkpoints.
    graph.double()
    assert_same(outcome_of(other.double(), other, (x.double(),)), outcome_of(graph, graph, (x.double(),)))


def state_names(graph: Any) -> list[Any]:
    return [
        [name for name, _ in graph.named_parameters(remove_duplicate=False)],
        [name for name, _ in graph.named_buffers(remove_duplicate=False)],
        [name for name, _ in graph.named_modules(remove_duplicate=False)],
        sorted(graph.state_dict()),
    ]


@pytest.mark.parametrize("again", [copy.deepcopy, saved_and_loaded])
def test_its_nodes_say_what_they_said(again: Any) -> None:
    graph = graph_of(True, False)
    other = again(graph)
    assert type(other).__name__ == "Net"
    assert other.code == graph.code
    for one, two in zip(graph.graph.nodes, other.graph.nodes, strict=True):
        assert (one.name, one.op) == (two.name, two.op)
        for key in ("nn_module_stack", "stack_trace", "tensor_meta", "checkpoint_region"):
            assert one.meta.get(key) == two.meta.get(key)


def test_a_model_of_a_local_class_can_be_saved() -> None:
    class Local(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin()

    model = Local()
    with Proxy.trace(model) as trace:
        model(torch.randn(3))
    loaded = saved_and_loaded(trace.graph())
    x = torch.randn(5)
    assert torch.equal(loaded(x), x.sin())
    (sin,) = (node for node in loaded.graph.nodes if node.op.startswith("call"))
    assert sin.meta["nn_module_stack"][""][1].endswith("Local")
