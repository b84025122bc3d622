"""Nodes go into sub-graphs that are computed again in the backward pass, and results stay the same to the bit."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import proxy_wrapper.proxy as Proxy
from proxy_views.passes.checkpoint_regions import checkpoint_regions
from proxy_views.passes.outline import RegionError, outline

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
"""Torch says so of reentrant checkpoints in one another, of the program's as well."""

X = torch.arange(12.0).reshape(3, 4) / 10


class Net(nn.Module):
    """Two layers, a parameter and a buffer of its own, and a branch."""

    offset: torch.Tensor

    def __init__(self, use_reentrant: bool | None = None) -> None:
        """With a checkpoint of this kind around `deep`, or with none."""
        super().__init__()
        self.use_reentrant = use_reentrant
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.deep = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.scale = nn.Parameter(torch.full((4,), 1.5))
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.a(x))
        first, second = torch.chunk(self.b(h) * self.scale + self.offset, 2, 1)
        joined = torch.cat([second, first], 1)
        if self.use_reentrant is None:
            out: torch.Tensor = self.deep(joined)
        else:
            out = checkpoint(self.deep, joined, use_reentrant=self.use_reentrant)
        return out + h


class Inside(fx.Tracer):
    """Goes into linear layers, so that the graph reads parameters by name."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, nn.BatchNorm1d)


def traced(model: nn.Module) -> fx.GraphModule:
    gm = fx.GraphModule(model, Inside().trace(model))
    ShapeProp(copy.deepcopy(gm)).propagate(X)
    for node in gm.graph.nodes:
        node.meta["nn_module_stack"] = {"": ("", type(model))}
    return gm


def net(use_reentrant: bool | None = None) -> Net:
    torch.manual_seed(0)
    return Net(use_reentrant)


def run(model: nn.Module, x: torch.Tensor = X) -> list[torch.Tensor]:
    """The output, all gradients, and the buffers."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    out = model(x)
    out.square().sum().backward()
    grads = [x.grad, *(each.grad for _, each in sorted(model.named_parameters()))]
    return [out.detach(), *(each for each in grads if each is not None), *model.buffers()]


def same(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return len(first) == len(second) and all(map(torch.equal, first, second))


def calls_of(gm: Any) -> list[Any]:
    return [node for node in gm.graph.nodes if node.target is checkpoint]


def names_in(gm: Any) -> list[str]:
    return [node.name for node in gm.graph.nodes if node.op not in ("placeholder", "get_attr", "output")]


class Counted(TorchDispatchMode):
    """Counts calls by their name."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


def counted_in_backward(model: nn.Module, name: str) -> int:
    loss = model(X.clone().requires_grad_()).square().sum()
    counted = Counted()
    with counted:
        loss.backward()
    return counted.counts.get(name, 0)


REGIONS: dict[str, Mapping[tuple[int, ...], list[str]]] = {
    "one node": {(0,): ["relu"]},
    "a layer": {(0,): ["relu", "linear_1"]},
    "several outputs": {(0,): ["relu", "linear_1", "mul", "add"]},
    "a parameter and a buffer of the root": {(0,): ["mul", "add"]},
    "parts of a result": {(0,): ["chunk", "getitem", "getitem_1"]},
    "a module": {(0,): ["linear_2", "deep_1"]},
    "two regions": {(0,): ["linear", "relu"], (1,): ["linear_2", "deep_1"]},
    "one in another": {(0,): ["linear_1", "mul", "add"], (0, 0): ["mul"]},
    "two in another": {(0, 0): ["linear", "relu"], (0,): ["linear_1"], (0, 1): ["mul", "add"]},
    "reads by name": {(0,): ["a_weight", "a_bias", "linear"]},
}


@pytest.mark.parametrize("use_reentrant", [False, True], ids=["", "reentrant"])
@pytest.mark.parametrize("regions", REGIONS)
def test_s11_marked_nodes_are_outlined_and_results_stay(regions: str, use_reentrant: bool) -> None:
    """Batch norm counts a batch twice in a checkpoint: in the program as well."""
    has_deep = any("deep_1" in names for names in REGIONS[regions].values())
    model, other = net(), net(use_reentrant if has_deep else None)
    gm = outline(traced(model), REGIONS[regions], use_reentrant=use_reentrant)
    top = {path[:1] for path in REGIONS[regions]}
    assert [node.args[0].target for node in calls_of(gm)] == [f"checkpoint_{number}" for (number,) in sorted(top)]
    assert {node.kwargs["use_reentrant"] for node in calls_of(gm)} == {use_reentrant}
    for _ in range(2):
        assert same(run(gm), run(other))
    assert all(gm.get_parameter(name) is each for name, each in model.named_parameters())
    assert all(node.meta["nn_module_stack"] for node in gm.graph.nodes)


def test_inputs_and_outputs_are_found() -> None:
    gm = outline(traced(net()), {(0,): ["relu", "linear_1", "mul"]})
    (call,) = calls_of(gm)
    assert [node.name for node in call.args[1:]] == ["linear"]
    sub: Any = gm.checkpoint_0
    assert names_in(sub) == ["relu", "linear_1", "mul"]
    assert [node.name for node in sub.graph.output_node().args[0]] == ["relu", "mul"]


@pytest.mark.parametrize(("use_reentrant", "count"), [(True, 2), (False, 1)])
def test_what_is_outlined_is_computed_again_in_the_backward_pass(use_reentrant: bool, count: int) -> None:
    """The kind that is not reentrant stops early, once it has what the backward pass needs."""
    assert counted_in_backward(traced(net()), "addmm") == 0
    gm = outline(traced(net()), {(0,): ["linear", "relu", "linear_1"]}, use_reentrant=use_reentrant)
    assert counted_in_backward(gm, "addmm") == count


def test_a_sub_graph_moves_with_the_graph_and_shares_its_state() -> None:
    gm, other = outline(traced(net()), {(0,): ["linear_2", "deep_1"], (1,): ["mul", "add"]}), net(False)
    gm.to(torch.float64)
    other.to(torch.float64)
    gm.eval()
    gm.train()
    assert same(run(gm, X.double()), run(other, X.double()))
    assert torch.equal(gm.get_buffer("deep.1.running_mean"), other.get_buffer("deep.1.running_mean"))
    assert sorted(gm.state_dict()) == sorted(other.state_dict())


class Counts(nn.Module):
    """Writes into a buffer of its own where it is computed again."""

    count: torch.Tensor

    def __init__(self, use_reentrant: bool) -> None:
        super().__init__()
        self.use_reentrant = use_reentrant
        self.fc = nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(()))

    def inside(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        out: torch.Tensor = self.fc(x) * x.shape[0]
        return out

    def forward(self, x: torch.Tensor) -> Any:
        return checkpoint(self.inside, x, use_reentrant=self.use_reentrant)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_buffer_that_is_written_in_a_recorded_checkpoint_is_that_of_the_graph(use_reentrant: bool) -> None:
    model, other = Counts(use_reentrant), Counts(use_reentrant)
    other.load_state_dict(model.state_dict())
    with Proxy.trace(model) as trace:
        model(X)
    model.count.zero_()
    gm = trace.graph().double()
    other.double()
    assert same(run(gm, X.double()), run(other, X.double()))
    assert gm.get_buffer("count").item() == 2
    assert sorted(gm.state_dict()) == sorted(other.state_dict())


def test_a_copy_is_whole_and_apart() -> None:
    gm = outline(traced(net()), {(0,): ["linear_1", "mul", "add"], (0, 0): ["mul"]})
    other = copy.deepcopy(gm)
    with torch.no_grad():
        for parameter in gm.parameters():
            parameter.zero_()
    assert same(run(other), run(net()))


def test_other_values_in_a_functional_call_reach_the_sub_graph() -> None:
    gm, model = outline(traced(net()), {(0,): ["mul", "add", "linear_1"]}), net()
    values = {name: torch.randn_like(each) for name, each in model.named_parameters()}
    assert torch.equal(
        torch.func.functional_call(gm.eval(), values, (X,)), torch.func.functional_call(model.eval(), values, (X,))
    )


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        pytest.param({(0,): ["rleu"]}, "no node 'rleu' that could be in region (0,)", id="an unknown name"),
        pytest.param({(0,): ["x"]}, "no node 'x'", id="an input"),
        pytest.param({(0,): ["relu"], (1,): ["relu"]}, "'relu' is in region (0,) and in region (1,)", id="two regions"),
        pytest.param({(0,): ["linear", "linear_1"]}, "'relu' is not in it, depends on the region", id="a cycle"),
    ],
)
def test_a_region_that_cannot_be_is_refused(regions: Any, message: str) -> None:
    with pytest.raises(RegionError) as refused:
        outline(traced(net()), regions)
    assert message in str(refused.value)


class Writes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        first = torch.sin(y)
        y.add_(1)
        return torch.cos(y) + first


def test_nodes_around_one_that_writes_in_place_are_outlined_only_with_it() -> None:
    with pytest.raises(RegionError, match="'add_' changes a tensor in place"):
        outline(traced(Writes()), {(0,): ["sin", "cos"]})
    gm = outline(traced(Writes()), {(0,): ["mul", "sin", "add_", "cos"]})
    assert torch.equal(gm(X), Writes()(X))


class Branches(nn.Module):
    """Two branches, of which the first one's nodes lie around the second."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = torch.sin(x), torch.cos(x)
        return torch.exp(first) + torch.tanh(second) + torch.exp(second)


def test_what_runs_between_goes_before_or_behind() -> None:
    gm = outline(traced(Branches()), {(0,): ["sin", "exp", "tanh"]})
    assert names_in(gm)[:2] == ["cos", "checkpoint"]
    assert same(run(gm), run(Branches()))


# As a program has them


def nested(x: torch.Tensor, *, use_reentrant: bool) -> torch.Tensor:
    """siu's `test_nested_ckpt`, with functions in the place of its layers."""

    def run_checkpoint(function: Any, *args: torch.Tensor) -> Any:
        return checkpoint(function, *args, use_reentrant=use_reentrant)

    def innermost(y: torch.Tensor) -> torch.Tensor:
        return torch.sin(y)

    def third(y: torch.Tensor) -> Any:
        return run_checkpoint(innermost, torch.cos(y))

    def second(y: torch.Tensor) -> Any:
        return run_checkpoint(lambda z: torch.exp(z), run_checkpoint(third, torch.tanh(y)))

    def first(y: torch.Tensor) -> Any:
        return run_checkpoint(lambda z: torch.sigmoid(z), run_checkpoint(second, torch.erf(y)))

    return run_checkpoint(first, x) * 2  # type: ignore[no-any-return]


def flat(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(torch.cos(torch.tanh(torch.erf(x))))
    return torch.sigmoid(torch.exp(y)) * 2


PATHS = {"erf": (0,), "tanh": (0, 0), "cos": (0, 0, 0), "sin": (0, 0, 0, 0), "exp": (0, 0, 1), "sigmoid": (0, 1)}


class Function(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize("use_reentrant", [False, True], ids=["", "reentrant"])
def test_s10_nested_checkpoints_are_sub_graphs_in_one_another(use_reentrant: bool) -> None:
    gm = traced(Function(flat))
    for node in gm.graph.nodes:
        if node.name in PATHS:
            node.meta["checkpoint_region"] = PATHS[node.name]
            node.meta["checkpoint_reentrant"] = (use_reentrant,) * len(PATHS[node.name])
    assert checkpoint_regions(gm) is gm
    names = {name for name, module in gm.named_modules() if isinstance(module, fx.GraphModule) and name}
    zero, one = "checkpoint_0", "checkpoint_0.checkpoint_0_0"
    assert names == {
        *(zero, f"{zero}.checkpoint_0_1", one, f"{one}.checkpoint_0_0_1"),
        *(f"{one}.checkpoint_0_0_0", f"{one}.checkpoint_0_0_0.checkpoint_0_0_0_0"),
    }
    assert same(run(gm), run(Function(lambda x: nested(x, use_reentrant=use_reentrant))))
    inner = gm.get_submodule(f"{one}.checkpoint_0_0_0")
    assert isinstance(inner, fx.GraphModule)
    (call,) = calls_of(inner)
    assert call.meta["checkpoint_region"] == (0, 0, 0)
    assert call.kwargs == {"use_reentrant": use_reentrant}


def test_s9_a_checkpoint_is_a_sub_graph_that_checkpoint_calls() -> None:
    gm = traced(net())
    for node in gm.graph.nodes:
        if node.name in ("linear", "relu", "a_weight", "a_bias"):
            node.meta["checkpoint_region"] = (0,)
    checkpoint_regions(gm)
    assert [str(each) for each in calls_of(gm)[0].args] == ["checkpoint_0", "x"]
    assert names_in(gm.checkpoint_0) == ["linear", "relu"]
    assert same(run(gm), run(net()))


def test_a_graph_without_checkpoints_stays() -> None:
    gm = traced(net())
    code = gm.code
    assert checkpoint_regions(gm).code == code


def test_a_part_that_is_taken_later_is_picked_in_the_region() -> None:
    """A graph picks a part of a result where that is taken first, which may be behind the region."""

    def parts(x: torch.Tensor) -> torch.Tensor:
        first, second = torch.chunk(torch.sin(x), 2, 1)
        return torch.exp(x)[:, :2] * first + second

    gm = traced(Function(parts))
    nodes = {node.name: node for node in gm.graph.nodes}
    nodes["chunk"].meta["tensor_meta"] = ()
    nodes["mul"].prepend(nodes["getitem"])
    nodes["add"].prepend(nodes["getitem_1"])
    for name in ("sin", "chunk", "getitem", "getitem_1"):
        nodes[name].meta["checkpoint_region"] = (0,)
    checkpoint_regions(gm)
    assert sorted(names_in(gm.checkpoint_0)) == ["chunk", "getitem", "getitem_1", "sin"]
    assert same(run(gm), run(Function(parts)))


def test_a_name_that_the_model_has_itself_is_left_to_it() -> None:
    model = nn.Sequential()
    model.add_module("checkpoint_0", nn.Linear(4, 4))
    model.add_module("act", nn.Tanh())
    gm = fx.symbolic_trace(model)
    expected = gm(X)
    outline(gm, {(0,): ["act"]})
    assert torch.equal(gm(X), expected)
    assert [node.args[0].target for node in calls_of(gm)] == ["checkpoint_0_"]
