"""What siu's tracer does, and what it does not manage: each line of its checklist by its number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import fx, nn
from torch._subclasses import FakeTensorMode
from torch.fx.passes.shape_prop import ShapeProp
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import proxy_wrapper.proxy as Proxy
from proxy_views.passes.outline import outline
from proxy_wrapper.errors import SettingsTypeError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")


@pytest.fixture(autouse=True)
def _no_tracer_is_left() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    Proxy._installed.take_down()


def graph_of(model: nn.Module, *args: Any, **options: Any) -> fx.GraphModule:
    """The graph of a call with these arguments, which gives what the model gives."""
    keywords = {name: options.pop(name) for name in list(options) if name in ("select",)}
    settings = {name: options.pop(name) for name in list(options) if name in ("leaf_functions",)}
    with Proxy.trace(model, **settings) as trace:
        wanted = model(*args, **keywords)
    graph = trace.graph(**options)
    if not options.get("split_bias"):
        assert torch.equal(graph(*args, **keywords), wanted)
    return graph


def called(graph: fx.GraphModule) -> list[str]:
    return [node.name for node in graph.graph.nodes if node.op.startswith("call")]


class Dimensions(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1 if x.dim() == 3 else x - 5


def test_s1_a_branch_on_dimensions() -> None:
    assert called(graph_of(Dimensions(), torch.randn(1, 2, 2))) == ["mul", "add"]
    assert called(graph_of(Dimensions(), torch.randn(2, 2))) == ["sub"]


class Sizes(nn.Module):
    def __init__(self, by_method: bool) -> None:
        super().__init__()
        self.by_method = by_method
        self.fc = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = x.size(0) if self.by_method else x.shape[0]
        if size > 1:
            x = x.sum(0)
        y: torch.Tensor = self.fc(x)
        return y


@pytest.mark.parametrize("by_method", [pytest.param(False, id="s2_shape"), pytest.param(True, id="s3_size")])
def test_s2_s3_a_branch_on_a_size(by_method: bool) -> None:
    assert called(graph_of(Sizes(by_method), torch.randn(1, 2, 2))) == ["linear"]
    assert called(graph_of(Sizes(by_method), torch.randn(2, 2, 2))) == ["sum_1", "linear"]


class Loop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(x.shape[0]):
            x = self.linear_2(self.linear_1(x))
        return x


def test_s4_a_loop_over_a_size_is_unrolled() -> None:
    graph = graph_of(Loop(), torch.randn(3, 3, 3), leaf_modules=True)
    targets = [node.target for node in graph.graph.nodes if node.op == "call_module"]
    assert targets == ["linear_1", "linear_2"] * 3


class Values(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(x.shape[1:])
        for row in x:
            if row.sum() > 0:
                total = total + row
        return total


def test_s5_a_branch_on_a_value_and_a_loop_over_a_tensor() -> None:
    graph = graph_of(Values(), torch.tensor([[1.0, 2.0], [-1.0, -2.0], [3.0, 4.0]]))
    assert [name for name in called(graph) if name.startswith("add")] == ["add", "add_1"]


@pytest.mark.parametrize(
    ("model", "shape"),
    [(Dimensions(), (2, 2, 2)), (Sizes(False), (2, 2, 2)), (Sizes(True), (1, 2, 2)), (Loop(), (3, 3, 3))],
    ids=["s1", "s2", "s3", "s4"],
)
def test_s6_the_graph_computes_what_the_model_does(model: nn.Module, shape: tuple[int, ...]) -> None:
    graph = graph_of(model, torch.randn(shape))
    x = torch.randn(shape)
    assert torch.equal(graph(x), model(x))


class Selects(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

    def forward(self, x: torch.Tensor, select: int = 1) -> torch.Tensor:
        y: torch.Tensor = self.branches[select](x)
        return y


def test_s7_arguments_choose_the_branch() -> None:
    x = torch.randn(3, 2)

    def weight(graph: fx.GraphModule) -> str:
        return str(next(node.target for node in graph.graph.nodes if node.op == "get_attr"))

    assert weight(graph_of(Selects(), x, select=0)) == "branches.0.weight"
    assert weight(graph_of(Selects(), x)) == "branches.1.weight"


def test_s8_every_node_has_a_module_path() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2), nn.ReLU()))
    with Proxy.trace(model) as trace:
        model(torch.randn(3, 2))
    nodes = [node for node in trace.graph().graph.nodes if node.op != "output"]
    assert all(node.meta["nn_module_stack"] for node in nodes)
    (norm,) = [node for node in nodes if node.name == "batch_norm"]
    assert list(norm.meta["nn_module_stack"]) == ["", "1", "1.0"]
    assert norm.meta["nn_module_stack"]["1.0"] == ("1.0", nn.BatchNorm1d)


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool, nested: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(6)])
        self.reentrant, self.nested = reentrant, nested

    def run(self, function: Any, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = checkpoint(function, x, use_reentrant=self.reentrant)
        return y

    def once(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layers[0](x))

    def deepest(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self.layers[3], torch.relu(self.layers[2](x)))

    def deep(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self.layers[4], self.run(self.deepest, x)) + 1

    def outer(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self.layers[5], self.run(self.deep, self.layers[1](x)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self.outer if self.nested else self.once, self.layers[0](x))


def gradients(call: Any, model: nn.Module, x: torch.Tensor) -> list[torch.Tensor | None]:
    for parameter in model.parameters():
        parameter.grad = None
    call(x).sum().backward()
    return [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize(
    ("nested", "regions"),
    [
        pytest.param(False, {(0,)}, id="s9"),
        pytest.param(True, {(0,), (0, 0), (0, 0, 0), (0, 0, 0, 0), (0, 0, 1), (0, 1)}, id="s10"),
    ],
)
def test_s9_s10_checkpoints_are_sub_graphs(reentrant: bool, nested: bool, regions: set[tuple[int, ...]]) -> None:
    model = Checkpointed(reentrant, nested)
    x = torch.randn(2, 3)
    with Proxy.trace(model) as trace:
        wanted = model(x)
    flat = trace.graph(checkpoint=False)
    assert {node.meta["checkpoint_region"] for node in flat.graph.nodes if "checkpoint_region" in node.meta} == regions
    graph = trace.graph()
    found = {
        name.rpartition(".")[2] for name, each in graph.named_modules() if isinstance(each, fx.GraphModule) and name
    }
    assert found == {"_".join(("checkpoint", *map(str, region))) for region in regions}
    call = next(node for node in graph.graph.nodes if node.target is checkpoint)
    assert call.kwargs == {"use_reentrant": reentrant}
    y = torch.randn(4, 3)
    assert torch.equal(graph(x), wanted)
    for one, other in zip(gradients(graph, model, y), gradients(model, model, y), strict=True):
        assert (one is None) == (other is None)
        assert one is None or other is None or torch.equal(one, other)


def test_s11_nodes_become_a_checkpoint_by_their_names() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.b(torch.relu(self.a(x)))
            return y

    model = Net()
    graph = outline(graph_of(model, torch.randn(2, 3), leaf_modules=True), {(0,): ["relu", "b"]})
    x = torch.randn(5, 3)
    assert torch.equal(graph(x), model(x))
    assert called(graph.checkpoint_0) == ["relu", "b"]  # type: ignore[arg-type]


BIASED = {
    "linear": (nn.Linear(3, 2), (4, 3), ["linear", "add"]),
    "conv1d": (nn.Conv1d(3, 2, 1), (4, 3, 5), ["conv1d", "reshape", "add"]),
    "conv2d": (nn.Conv2d(3, 2, 1), (4, 3, 5, 5), ["conv2d", "reshape", "add"]),
    "conv3d": (nn.Conv3d(3, 2, 1), (4, 3, 2, 2, 2), ["conv3d", "reshape", "add"]),
    "transposed": (nn.ConvTranspose2d(3, 2, 2), (4, 3, 5, 5), ["conv_transpose2d", "reshape", "add"]),
}


@pytest.mark.parametrize("name", BIASED)
def test_s12_a_bias_is_a_node_of_its_own(name: str) -> None:
    model, shape, wanted = BIASED[name]
    x = torch.randn(shape)
    graph = graph_of(model, x, split_bias=True)
    assert [re.sub(r"_\d+$", "", each) for each in called(graph)] == wanted
    torch.testing.assert_close(graph(x), model(x))


class Sums(nn.Module):
    def __init__(self, **factors: Any) -> None:
        super().__init__()
        self.factors = factors

    def forward(self, x: torch.Tensor) -> Any:
        return torch.addmm(x, x, x, **self.factors)


def test_s13_factors_of_a_sum_of_products() -> None:
    x = torch.randn(3, 3)
    graph = graph_of(Sums(alpha=2, beta=3), x, split_bias=True)
    assert called(graph).count("mul") == 1
    assert {"linear", "mul", "mul_1", "add"} <= set(called(graph))
    torch.testing.assert_close(graph(x), torch.addmm(x, x, x, alpha=2, beta=3))
    assert not any(name.startswith("mul") for name in called(graph_of(Sums(), x, split_bias=True)))


def test_s14_without_a_bias_nothing_is_added() -> None:
    x = torch.randn(4, 3)
    assert called(graph_of(nn.Linear(3, 2, bias=False), x, split_bias=True)) == ["linear"]
    assert called(graph_of(nn.Linear(3, 2), x)) == ["linear"]


def test_s15_no_memory_is_needed() -> None:
    class Huge(nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return torch.mm(a, a).to(torch.float64)

    with torch.device("meta"):
        (node,) = [node for node in graph_shapes(Huge(), torch.rand(100_000, 100_000)) if node.name == "mm"]
    assert node.meta["tensor_meta"].shape == (100_000, 100_000)
    with FakeTensorMode():
        a = torch.rand(100_000, 100_000, device="cpu")
        with Proxy.trace(model := Huge()) as trace:
            assert model(a).device == torch.device("cpu")
    assert called(trace.graph()) == ["mm", "to"]


def graph_shapes(model: nn.Module, *args: torch.Tensor) -> list[fx.Node]:
    with Proxy.trace(model) as trace:
        model(*args)
    return list(trace.graph().graph.nodes)


def test_s16_shapes_without_data_are_those_of_the_real_run() -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))

    with torch.device("meta"):
        on_meta = graph_shapes(build(), torch.rand(2, 3, 8, 8))
    x = torch.rand(2, 3, 8, 8)
    real = graph_of(build().eval(), x)
    symbolic = fx.symbolic_trace(build())
    ShapeProp(symbolic).propagate(x)

    def shapes(nodes: Any, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        return [tuple(node.meta["tensor_meta"].shape) for node in nodes if node.name.startswith(names)]

    computed = ("conv2d", "batch_norm", "relu", "flatten", "linear")
    assert shapes(on_meta, computed) == shapes(real.graph.nodes, computed)
    assert shapes(symbolic.graph.nodes, ("_0", "_1", "_2", "_3", "_4")) == shapes(real.graph.nodes, computed)


def activation(x: torch.Tensor, slope: float) -> torch.Tensor:
    return torch.where(x > 0, x, x * slope)


class WithLeaf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = Loop()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.softplus(activation(self.fc(x), 0.1))


def test_s24_functions_and_modules_of_the_program_can_be_leaves() -> None:
    x = torch.randn(2, 3)
    graph = graph_of(WithLeaf(), x, leaf_functions=[activation], leaf_modules=[Loop])
    assert called(graph) == ["fc", "activation", "softplus"]
    assert [node.op for node in graph.graph.nodes] == ["placeholder", "call_module", *["call_function"] * 2, "output"]
    inside = graph_of(WithLeaf(), x)
    assert {"where", "gt", "mul"} <= set(called(inside))


def test_s24_a_module_can_be_registered_as_a_leaf_of_all_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Proxy._installed, "leaf_modules", ())

    @Proxy.register_leaf_module
    class Registered(Loop):
        pass

    x, model = torch.randn(2, 3), WithLeaf()
    model.fc = Registered()
    graph = graph_of(model, x)
    assert called(graph)[0] == "fc"
    assert not {"linear", "linear_1"} & set(called(graph))
    assert torch.equal(graph(x + 1), model(x + 1))
    assert len(called(graph_of(WithLeaf(), x))) > len(called(graph))  # The class above it is none.
    with pytest.raises(SettingsTypeError, match="a class derived from"):
        Proxy.register_leaf_module(int)  # type: ignore[type-var]
