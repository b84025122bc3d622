"""Bends give what forward hooks give, and `torch.func.functional_call` with changed weights; gradients as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import proxy_wrapper.proxy as Proxy
from proxy_views import BendingParameter, Capture, Lambda, Mask, Scale, bend

if TYPE_CHECKING:
    from collections.abc import Callable


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first = nn.Linear(6, 6)
        self.layers: Any = nn.ModuleList([first, nn.Linear(6, 6), nn.Linear(6, 6)])
        self.norm = nn.LayerNorm(6)
        self.tied: Any = nn.Linear(6, 6, bias=False)
        self.tied.weight = first.weight
        self.lstm = nn.LSTM(6, 6, batch_first=True)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = F.gelu(layer(x)) + x
        x, _ = self.lstm(self.norm(x))
        return self.tied(x)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)

    def forward(self, x: torch.Tensor) -> Any:
        return self.encoder(x)


def outcome(call: Callable[[torch.Tensor], torch.Tensor], model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    output = call(x)
    output.square().sum().backward()
    return [output.detach(), *(each.grad.clone() for each in model.parameters() if each.grad is not None)]


def assert_same(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    assert len(found) == len(wanted)
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize("name", ["layers.0", "layers.2", "norm", "tied"])
def test_a_module_is_bent_as_by_a_forward_hook(name: str) -> None:
    model, x = Net(), torch.randn(2, 5, 6)
    hook = model.get_submodule(name).register_forward_hook(lambda module, given, output: output * 2.0)
    wanted = outcome(model, model, x)
    hook.remove()
    with bend(model, name.replace(".", r"\."), Scale(2.0)):
        assert_same(outcome(model, model, x), wanted)
    with bend(model, name, Lambda(lambda value: value.mul_(2.0))):
        assert torch.equal(model(x), wanted[0])


def test_a_tuple_is_bent_in_each_of_its_tensors() -> None:
    model, x = Net(), torch.randn(2, 5, 6)
    hook = model.lstm.register_forward_hook(lambda m, g, o: (o[0] * 2.0, (o[1][0] * 2.0, o[1][1] * 2.0)))
    wanted = outcome(model, model, x)
    hook.remove()
    capture = Capture()
    with bend(model, "lstm", Scale(2.0) >> capture):
        assert_same(outcome(model, model, x), wanted)
    assert list(capture.captured) == ["lstm[0]", "lstm[1][0]", "lstm[1][1]"]


@pytest.mark.parametrize("names", [["layers.1.weight"], ["lstm.weight_hh_l0", "lstm.bias_ih_l0"], ["norm.weight"]])
def test_parameters_are_bent_as_by_functional_call(names: list[str]) -> None:
    model, x = Net(), torch.randn(2, 5, 6)

    def functional(given: torch.Tensor) -> Any:
        weights = {name: model.get_parameter(name) * 0.5 for name in names}
        return torch.func.functional_call(model, weights, (given,))

    if not names[0].startswith("lstm"):
        wanted = outcome(functional, model, x)
        with bend(model, names, Scale(0.5)):
            assert_same(outcome(model, model, x), wanted)
        return
    kept = {name: model.get_parameter(name).detach().clone() for name in names}  # An LSTM calls with its own list.
    with bend(model, names, Scale(0.5)):
        found = model(x)
    with torch.no_grad():
        for name in names:
            model.get_parameter(name).mul_(0.5)
    assert torch.equal(found, model(x))
    with torch.no_grad():
        for name, each in kept.items():
            model.get_parameter(name).copy_(each)


def test_a_tied_weight_is_bent_once_wherever_it_is_used() -> None:
    model, x = Net(), torch.randn(2, 5, 6)

    def functional(given: torch.Tensor) -> Any:
        return torch.func.functional_call(model, {"tied.weight": model.tied.weight * 0.5}, (given,))

    wanted = outcome(functional, model, x)
    for target in ("tied.weight", r"layers\.0\.weight", r"(tied|layers\.0)\.weight"):
        with bend(model, target, Scale(0.5)) as handle:
            assert_same(outcome(model, model, x), wanted)
            assert handle.count == 1


@pytest.mark.parametrize("is_training", [True, False])
def test_parameters_of_modules_that_nobody_looks_into(is_training: bool) -> None:
    model, x = Encoder().train(is_training), torch.randn(2, 5, 8)
    names = ["encoder.self_attn.in_proj_weight", "encoder.linear1.weight"]

    def functional(given: torch.Tensor) -> Any:
        weights = {name: model.get_parameter(name) * 0.5 for name in names}
        return torch.func.functional_call(model, weights, (given,))

    parameters = list(model.parameters())
    wanted = outcome(functional, model, x)
    with torch.no_grad():
        without_grad = functional(x)
    with bend(model, names, Scale(0.5)):
        assert_same(outcome(model, model, x), wanted)
        with torch.no_grad():
            assert torch.equal(model(x), without_grad)
        with pytest.raises((AssertionError, RuntimeError)):
            model(torch.randn(2, 5, 7))
        assert all(one is other for one, other in zip(model.parameters(), parameters, strict=True))


@pytest.mark.parametrize("is_reentrant", [True, False])
@pytest.mark.parametrize("is_in_block", [True, False])
def test_a_checkpoint_computes_again_what_it_has_computed(is_reentrant: bool, is_in_block: bool) -> None:
    class Checkpointed(nn.Module):
        def __init__(self, is_checkpointed: bool) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.is_checkpointed = is_checkpointed

        def inner(self, x: torch.Tensor) -> Any:
            return torch.tanh(self.second(torch.tanh(self.first(x))))

        def forward(self, x: torch.Tensor) -> Any:
            x = torch.tanh(x * self.first.bias)
            if not self.is_checkpointed:
                return torch.tanh(self.inner(x))
            return torch.tanh(checkpoint(self.inner, x, use_reentrant=is_reentrant))

    plain, model = Checkpointed(False), Checkpointed(True)
    model.load_state_dict(plain.state_dict())
    x = torch.randn(3, 4)
    m = BendingParameter("m", 0.5)
    found, capture = [], Capture()
    targets = (("first", Scale(m)), ("second.weight", Scale(0.5)), ("tanh_2", Mask(0.5, seed=1)), ("second", capture))
    for each in (plain, model):
        m.update(0.5)
        capture.clear()
        handles = [bend(each, target, callback) for target, callback in targets]
        output = each(x)
        m.update(7.0)
        if not is_in_block:
            for handle in handles:
                handle.remove()
        output.square().sum().backward()
        for handle in handles:
            handle.remove()
        assert capture.joined().shape == (3, 4)
        assert [handle.count for handle in handles] == [1, 1, 1, 1]
        assert m.value == 7.0
        found.append([output.detach(), *(parameter.grad for parameter in each.parameters())])
    assert_same(found[1], found[0])


def test_the_graph_of_a_bent_model_has_the_bends_as_nodes() -> None:
    model, x = Net().eval(), torch.randn(2, 5, 6)
    with bend(model, r"layers\.1", Scale(2.0)), bend(model, "", Mask(0.5)), bend(model, "gelu_2", Scale(3.0)):
        with bend(model, r"layers\.2\.weight", Scale(0.5)), Proxy.trace(model) as trace:
            bent = model(x)
        with Proxy.trace(model) as leafy:
            also_bent = model(x)
    graph = trace.graph()
    names = [node.name for node in graph.graph.nodes if node.op.startswith("call")]
    assert {"mul", "mul_1", "mul_2", "masked_fill"} <= set(names)
    assert torch.equal(graph(x), bent)
    assert torch.equal(leafy.graph(leaf_modules=True)(x), also_bent)
    assert torch.equal(replayed(model, x), model(x))


def replayed(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with Proxy.trace(model) as trace:
        model(x)
    found: torch.Tensor = trace.graph()(x)
    return found
