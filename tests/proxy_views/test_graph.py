"""The graph of a call computes what the model does, to the bit: outputs, gradients, buffers, random numbers."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import proxy_wrapper.proxy as Proxy
from tests.proxy_views.same_results import assert_replays, traced


class Function(nn.Module):
    """A module whose forward is a function of its own, a layer and the inputs."""

    def __init__(self, function: Any, layer: nn.Module | None = None) -> None:
        super().__init__()
        self.layer = layer if layer is not None else nn.Linear(3, 3)
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(self.layer, x)


class Doubled(torch.autograd.Function):
    """Its gradient is not that of what its forward computes."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 5


def under_autocast(layer: nn.Module, x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
        with torch.autocast("cpu", enabled=False):
            z = layer(x)
    return y.float() + z


def partly_without_grad(layer: nn.Module, x: torch.Tensor) -> Any:
    y = layer(x)
    with torch.no_grad():
        scale = layer(y).abs().mean()
        with torch.enable_grad():
            z = layer(y)
    return y * scale + z


def changes_a_list(layer: nn.Module, x: torch.Tensor) -> Any:
    parts = [x, layer(x)]
    joined = torch.cat(parts)
    parts.clear()
    return joined


def in_place_on_a_view(layer: nn.Module, x: torch.Tensor) -> Any:
    y = layer(x).clone()
    y[:, 0].mul_(2)
    y[0] = 1
    y += 1
    return y


def into_out(layer: nn.Module, x: torch.Tensor) -> Any:
    y = layer(x)
    out = torch.empty(0)
    torch.add(x, 1, out=out)
    return y + out


def changes_its_input(layer: nn.Module, x: torch.Tensor) -> Any:
    x.add_(1)
    return layer(x)


def reads_a_number(layer: nn.Module, x: torch.Tensor) -> Any:
    y = layer(x)
    return y * 2 if y.sum().item() < 1e9 else y


def sets_attributes(layer: nn.Module, x: torch.Tensor) -> Any:
    y = layer(x).detach()
    y.requires_grad = True
    z = y.mT.T if y.dim() == 2 else y
    w = x.clone()
    w.data = x * 3
    return (z * w).sum()


def over_rows(layer: nn.Module, x: torch.Tensor) -> Any:
    total = torch.zeros(3)
    for row in layer(x):
        total = total + row if row.sum() > 0 else total - row
    first, *_ = x
    return total + first


def both_ways(reentrant: bool) -> Any:
    def run(layer: nn.Module, x: torch.Tensor) -> Any:
        def inner(y: torch.Tensor) -> Any:
            return F.dropout(layer(y).relu(), 0.5) + checkpoint(layer, y, use_reentrant=reentrant)

        y = checkpoint(inner, layer(x), use_reentrant=reentrant)
        return layer(y)

    return run


CASES = {
    "autocast": under_autocast,
    "no_grad": partly_without_grad,
    "autograd.Function": lambda layer, x: Doubled.apply(layer(x)) * 3,  # type: ignore[no-untyped-call]
    "a list that is changed": changes_a_list,
    "in place on a view": in_place_on_a_view,
    "out=": into_out,
    "in place on an input": changes_its_input,
    ".item()": reads_a_number,
    "attributes": sets_attributes,
    "iteration": over_rows,
    "checkpoint": both_ways(False),
    "reentrant checkpoint": both_ways(True),
    "dropout": lambda layer, x: F.dropout(layer(x), 0.3),
    "operators": lambda layer, x: 1 - 2 / (layer(x) ** 2 + 3) % 4 + x // 2 + (x @ x.T).sum(),
    "tuples": lambda layer, x: layer(x).max(dim=1).values + torch.topk(x, 2)[0].sum(1),
    "splits": lambda layer, x: torch.cat(layer(x).chunk(3, dim=1)[::-1], dim=1),
    "factories": lambda layer, x: layer(x) + torch.arange(3, device=x.device) + torch.rand(3) + torch.tensor([1.0]),
    "norms": lambda layer, x: F.layer_norm(layer(x), (3,), layer.weight[0], layer.bias),
    "embedding": lambda layer, x: F.embedding(torch.tensor([0, 1]), layer.weight) + x[:1],
    "attention": lambda layer, x: F.scaled_dot_product_attention(layer(x)[None], x[None], x[None]),
    "infinity": lambda layer, x: layer(x).masked_fill(x > 0, float("-inf")).softmax(0).nan_to_num(),
    "a generator": lambda layer, x: layer(x) + torch.rand(3, generator=torch.Generator().manual_seed(3)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_what_a_call_does_is_done_again(name: str) -> None:
    model = Function(CASES[name])
    x = torch.randn(4, 3)
    trace = traced(model, x)
    if name == "a generator":  # It is the one that was recorded, and has gone on.
        assert isinstance(trace.graph(), fx.GraphModule)
        return
    assert_replays(trace, model, x)
    assert_replays(trace, model, x * 1.001 if name == "iteration" else torch.randn(4, 3))


@pytest.mark.parametrize("reentrant", [False, True])
def test_grad_is_on_behind_a_graph_with_checkpoints(reentrant: bool) -> None:
    model = Function(both_ways(reentrant))
    trace = traced(model, torch.randn(4, 3))
    graph = trace.graph()
    assert graph(torch.randn(4, 3)).requires_grad
    assert torch.is_grad_enabled()
    regions = {
        node.meta["checkpoint_region"]
        for node in trace.graph(checkpoint=False).graph.nodes
        if "checkpoint_region" in node.meta
    }
    assert regions == {(0,), (0, 0)}


def test_a_function_of_autograd_is_one_node() -> None:
    graph = traced(Function(CASES["autograd.Function"]), torch.randn(4, 3)).graph()
    assert [node.name for node in graph.graph.nodes if node.op == "call_function"] == ["linear", "apply", "mul"]


def test_no_switch_is_a_node() -> None:
    graph = traced(Function(partly_without_grad), torch.randn(4, 3)).graph()
    names = [node.name for node in graph.graph.nodes if node.op.startswith("call")]
    assert names == ["linear", "linear_without_grad", "abs_without_grad", "mean_without_grad", "linear_1", "mul", "add"]


class Normalized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.scale = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, x: torch.Tensor) -> Any:
        return self.norm(x) * self.scale


def test_batch_norm_in_training_moves_its_statistics_as_the_model_does() -> None:
    model = Normalized()
    trace = traced(model, torch.randn(4, 3))
    assert_replays(trace, model, torch.randn(5, 3))
    assert model.norm.num_batches_tracked is not None
    assert int(model.norm.num_batches_tracked) > 1


def test_a_plain_tensor_attribute_is_part_of_the_graph_and_named() -> None:
    model = Normalized().eval()
    trace = traced(model, torch.randn(4, 3))
    graph = trace.graph()
    assert graph.get_buffer("_tensor_constant0") is model.scale
    (found,) = [each for each in trace.frozen if each.kind == "tensor"]
    assert found.what == "_tensor_constant0"
    assert found.place is not None
    assert found.place.function.endswith("forward")
    assert set(graph.state_dict()) == set(model.state_dict()) - {"norm.num_batches_tracked"}  # Not read in evaluation.


def test_an_lstm_takes_other_batches_and_lengths() -> None:
    model = nn.LSTM(3, 4, num_layers=2, batch_first=True)
    trace = traced(model, torch.randn(2, 5, 3))
    assert_replays(trace, model, torch.randn(4, 7, 3))


@pytest.mark.parametrize("training", [False, True])
def test_an_encoder_on_the_blacklist_is_one_node_that_takes_its_fast_path(training: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.Sequential(nn.Linear(8, 8), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)).train(training)
    with torch.no_grad():
        trace = traced(model, torch.randn(2, 4, 8))
        assert_replays(trace, model, torch.randn(3, 5, 8))
    assert [node.op for node in trace.graph().graph.nodes if node.op.startswith("call")] == [
        "call_function",
        "call_module",
    ]


@pytest.mark.parametrize(
    "model", [nn.MultiheadAttention(4, 2), nn.TransformerEncoderLayer(4, 2, 8)], ids=["mha", "layer"]
)
def test_a_model_on_the_blacklist_is_a_graph_of_itself(model: nn.Module) -> None:
    x = torch.randn(3, 2, 4)
    args = (x, x, x) if isinstance(model, nn.MultiheadAttention) else (x,)
    assert_replays(traced(model.eval(), *args), model, *args)


@dataclasses.dataclass
class Answer:
    logits: torch.Tensor
    hidden: list[torch.Tensor]
    note: str = "none"


def test_a_dataclass_comes_back_as_one() -> None:
    model = Function(lambda layer, x: Answer(layer(x), [x, x + 1], "yes"))
    trace = traced(model, torch.randn(2, 3))
    x = torch.randn(5, 3)
    found = trace.graph()(x)
    assert isinstance(found, Answer)
    assert found.note == "yes"
    assert torch.equal(found.logits, model(x).logits)
    assert torch.equal(found.hidden[1], x + 1)


def test_structures_go_in_and_come_out() -> None:
    class Nested(nn.Module):
        def forward(self, pairs: Any, *, scale: Any, number: int = 3) -> Any:
            return {"a": pairs[0][0] * scale["s"], "b": (pairs[1] + number, None)}

    model = Nested()
    first = ([torch.randn(2)], torch.randn(2))
    trace = traced(model, first, scale={"s": torch.randn(2)}, number=5)
    other = ([torch.randn(2)], torch.randn(2))
    assert_replays(trace, model, other, scale={"s": torch.randn(2)}, number=5)
    found = trace.graph()(other, {"s": torch.ones(2)}, 5)
    assert found["b"][1] is None


def test_tied_weights_are_one() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x: torch.Tensor) -> Any:
            return self.b(self.a(x))

    model = Tied()
    trace = traced(model, torch.randn(2, 3))
    assert_replays(trace, model, torch.randn(2, 3))
    assert [node.target for node in trace.graph().graph.nodes if node.op == "get_attr"] == [
        "a.weight",
        "a.bias",
        "b.bias",
    ]


def test_parameters_that_are_replaced_in_the_block_are_those_of_the_call() -> None:
    model = nn.Linear(3, 3)
    with Proxy.trace(model) as trace:
        model.weight = nn.Parameter(torch.zeros(3, 3))
        model(torch.randn(2, 3))
    assert dict(trace.graph().named_parameters())["weight"] is model.weight


def test_an_output_that_hooks_change_is_the_graph_s_too() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    model[0].register_forward_hook(lambda module, given, output: output * 2)
    model.register_forward_hook(lambda module, given, output: output + 1)
    model.register_forward_pre_hook(lambda module, given: (given[0] * 3,))
    assert_replays(traced(model, torch.randn(2, 3)), model, torch.randn(4, 3))


def test_leaf_modules_are_nodes_of_their_own() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2)))
    trace = traced(model, torch.randn(2, 3))

    def targets(leaf_modules: Any) -> list[Any]:
        graph = trace.graph(leaf_modules=leaf_modules)
        assert_replays(trace, model, torch.randn(4, 3), graph=graph)
        return [node.target for node in graph.graph.nodes if node.op == "call_module"]

    assert targets(True) == ["0", "1.0", "1.1"]
    assert targets([nn.Linear]) == ["0", "1.1"]
    assert targets(["1"]) == ["1"]
    assert targets(False) == []


def test_names_are_those_of_fx() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv_modules = nn.ModuleList([nn.Conv1d(1, 1, 1), nn.Conv1d(1, 1, 1)])

        def forward(self, x: torch.Tensor) -> Any:
            for each in (*self.conv_modules, self.conv_modules[0]):
                x = torch.tanh(each(x) + 1)
            return x

    graph = traced(Net(), torch.randn(1, 1, 4)).graph(leaf_modules=True).graph
    wanted = [node.name for node in fx.symbolic_trace(Net()).graph.nodes]
    assert [node.name for node in graph.nodes] == wanted


def test_every_node_says_where_it_comes_from() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(3, 3))

        def forward(self, x: torch.Tensor) -> Any:
            return self.inner(x).view(x.shape[0], -1) + self.inner(x)

    graph = traced(Outer(), torch.randn(2, 3)).graph()
    for node in graph.graph.nodes:
        if node.op == "output":
            continue
        assert node.meta["nn_module_stack"], node
        assert "test_graph.py" in node.meta["stack_trace"], node
    by_name = {node.name: node for node in graph.graph.nodes}
    stack = by_name["linear_1"].meta["nn_module_stack"]
    assert list(stack) == ["", "inner@1", "inner.0@1"]
    assert stack["inner.0@1"] == ("inner.0", nn.Linear)
    assert "self.inner(x).view(x.shape[0], -1) + self.inner(x)" in by_name["add"].meta["stack_trace"]
    assert by_name["linear"].meta["tensor_meta"].shape == (2, 3)
    assert by_name["add"].target is operator.add


def test_what_nothing_takes_stays_unless_it_only_reads() -> None:
    def run(layer: nn.Module, x: torch.Tensor) -> Any:
        x.shape, x.size(0), x.dim(), x.dtype, x.is_contiguous()
        torch.relu(x)
        torch.zeros(2).fill_(1)
        return layer(x)

    graph = traced(Function(run), torch.randn(2, 3)).graph()
    names = [node.name for node in graph.graph.nodes if node.op.startswith("call")]
    assert names == ["relu", "zeros", "fill_", "linear"]


def test_sizes_that_are_needed_stay_in_the_graph() -> None:
    model = Function(lambda layer, x: layer(x).reshape(x.shape[0] * x.size(1) // 3, -1) * (x.numel() - 1))
    trace = traced(model, torch.randn(2, 3))
    assert_replays(trace, model, torch.randn(6, 3))
    assert trace.frozen == []


def test_another_path_is_an_error_where_shapes_forbid_it() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 2))
    graph = traced(model, torch.randn(1, 2, 3)).graph()
    with pytest.raises(RuntimeError):
        graph(torch.randn(1, 2, 4))


def test_a_plain_function_can_be_one_node() -> None:
    offset = 3

    def scaled(x: torch.Tensor, by: float = 2.0, *, plus: float = 1.0) -> torch.Tensor:
        return x * by + plus + offset

    code = scaled.__code__
    model = Function(lambda layer, x: scaled(layer(x), plus=4.0))
    trace = traced(model, torch.randn(2, 3), leaf_functions=[scaled])
    assert scaled.__code__ is code
    assert_replays(trace, model, torch.randn(5, 3))
    graph = trace.graph()
    (node,) = [node for node in graph.graph.nodes if node.target is scaled]
    assert node.kwargs == {"plus": 4.0}
    assert [each.name for each in graph.graph.nodes if each.op == "call_function"] == ["linear", "scaled"]


def test_a_transform_is_refused_and_can_be_one_node() -> None:
    def rows(x: torch.Tensor) -> Any:
        return torch.func.vmap(lambda row: row * row.sum())(x)

    model = Function(lambda layer, x: rows(layer(x)))
    trace = traced(model, torch.randn(2, 3))
    with pytest.raises(NotImplementedError, match="leaf_functions"):
        trace.graph()
    trace = traced(model, torch.randn(2, 3), leaf_functions=[rows])
    assert_replays(trace, model, torch.randn(4, 3))


def test_a_graph_survives_a_copy() -> None:
    import copy

    model = Function(partly_without_grad)
    graph = copy.deepcopy(traced(model, torch.randn(2, 3)).graph())
    x = torch.randn(2, 3)
    assert torch.equal(graph(x), model(x))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_torchscript_is_one_node() -> None:
    scripted = torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    model = Function(lambda layer, x: layer(x) + 1, scripted)
    trace = traced_without_copy(model, torch.randn(2, 3))
    x = torch.randn(4, 3)
    graph = trace.graph()
    assert torch.equal(graph(x), model(x))
    assert [node.target for node in graph.graph.nodes if node.op == "call_module"] == ["layer"]


def traced_without_copy(model: nn.Module, *args: Any) -> Any:
    with Proxy.trace(model) as trace:
        model(*args)
    return trace
