"""A layer's bias becomes an addition of its own."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp

import proxy_wrapper.proxy as Proxy
from proxy_views.passes.split_bias import split_bias

if TYPE_CHECKING:
    from collections.abc import Callable

LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "linear": (nn.Linear(4, 5), (2, 4)),
    "linear of many dimensions": (nn.Linear(4, 5), (2, 3, 4)),
    "conv1d": (nn.Conv1d(4, 5, 3, padding=1), (2, 4, 8)),
    "conv2d": (nn.Conv2d(4, 6, 3, stride=2, groups=2, padding="valid"), (2, 4, 8, 8)),
    "conv2d of one picture": (nn.Conv2d(4, 6, 3), (4, 8, 8)),
    "conv3d": (nn.Conv3d(4, 5, 2, dilation=2), (2, 4, 5, 5, 5)),
    "transposed conv1d": (nn.ConvTranspose1d(4, 5, 3), (2, 4, 8)),
    "transposed conv2d": (nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1, groups=2), (2, 4, 8, 8)),
    "transposed conv3d": (nn.ConvTranspose3d(4, 5, 2, dilation=2), (2, 4, 5, 5, 5)),
}


class Inside(fx.Tracer):
    """Goes into the modules of torch, too."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return False


def traced(model: nn.Module, *, leaves: bool = False) -> fx.GraphModule:
    tracer = fx.Tracer() if leaves else Inside()
    return fx.GraphModule(model, tracer.trace(model))


def run(model: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    model.zero_grad()
    x = x.clone().requires_grad_()
    out = model(x)
    out.square().sum().backward()
    return out.detach(), [x.grad, *(each.grad for each in model.parameters())]


def close(first: Any, second: Any) -> bool:
    (out, grads), (other, others) = first, second
    return torch.allclose(out, other, atol=1e-5) and all(
        a is not None and b is not None and torch.allclose(a, b, rtol=1e-4, atol=1e-4)
        for a, b in zip(grads, others, strict=True)
    )


def biased(gm: fx.GraphModule) -> list[fx.Node]:
    """The calls that still are given a bias."""
    return [
        node
        for node in gm.graph.nodes
        if (node.op == "call_module" and getattr(gm.get_submodule(node.target), "bias", None) is not None)
        or (node.target in (F.linear, F.conv1d, F.conv2d, F.conv3d) and len(node.args) > 2 and node.args[2] is not None)
        or node.kwargs.get("bias") is not None
    ]


@pytest.mark.parametrize("leaves", [False, True], ids=["calls", "modules"])
@pytest.mark.parametrize("layer", LAYERS)
def test_s12_a_layer_becomes_its_product_and_an_addition(layer: str, leaves: bool) -> None:
    module, shape = LAYERS[layer]
    model, x = nn.Sequential(module), torch.randn(shape)
    gm = traced(model, leaves=leaves)
    ShapeProp(gm).propagate(x)
    split = split_bias(gm)
    assert split is gm
    assert biased(gm) == []
    added = [node for node in gm.graph.nodes if node.target is operator.add]
    assert len(added) == 1
    behind = len(shape) - 2 if layer != "conv2d of one picture" else 2
    reshaped = [node.args[1:] for node in gm.graph.nodes if node.target == "reshape"]
    assert reshaped == ([] if "linear" in layer else [(-1, *[1] * behind)])
    assert close(run(gm, x), run(model, x))


def test_the_sum_is_that_of_the_two_steps_to_the_bit() -> None:
    model, x = nn.Linear(4, 5), torch.randn(3, 4)
    assert torch.equal(split_bias(traced(model))(x), F.linear(x, model.weight) + model.bias)


@pytest.mark.parametrize("leaves", [False, True], ids=["calls", "modules"])
def test_what_is_said_of_a_node_is_said_of_both(leaves: bool) -> None:
    model, x = nn.Sequential(nn.Conv2d(2, 3, 3)), torch.randn(1, 2, 5, 5)
    gm = traced(model, leaves=leaves)
    ShapeProp(gm).propagate(x)
    for node in gm.graph.nodes:
        node.meta["nn_module_stack"] = {"0": ("0", nn.Conv2d)}
        node.meta["stack_trace"] = "here"
    shapes = {node.name: node.meta["tensor_meta"].shape for node in split_bias(gm).graph.nodes}
    assert all(node.meta["stack_trace"] == "here" and node.meta["nn_module_stack"] for node in gm.graph.nodes)
    ShapeProp(gm).propagate(x)
    assert {node.name: node.meta["tensor_meta"].shape for node in gm.graph.nodes} == shapes


def test_s14_without_a_bias_nothing_is_added() -> None:
    model = nn.Sequential(nn.Linear(4, 5, bias=False), nn.Unflatten(1, (1, 5)), nn.Conv1d(1, 2, 3, bias=False))
    for leaves in (False, True):
        gm = traced(model, leaves=leaves)
        before = gm.code
        assert split_bias(gm).code == before


SUMS: dict[str, tuple[Callable[..., torch.Tensor], list[str]]] = {
    "plain": (lambda b, m, n: torch.addmm(b, m, n), ["transpose", "linear", "add"]),
    "a method": (lambda b, m, n: b.addmm(m, n), ["transpose", "linear", "add"]),
    "alpha": (lambda b, m, n: torch.addmm(b, m, n, alpha=2), ["transpose", "linear", "mul", "add"]),
    "beta": (lambda b, m, n: torch.addmm(b, m, n, beta=3), ["transpose", "linear", "mul", "add"]),
    "both": (lambda b, m, n: torch.addmm(b, m, n, beta=3, alpha=2), ["transpose", "linear", "mul", "mul", "add"]),
    "ones": (lambda b, m, n: torch.addmm(b, m, n, beta=1, alpha=1.0), ["transpose", "linear", "add"]),
    "nothing to add": (lambda b, m, n: torch.addmm(b, m, n, beta=0), ["transpose", "linear"]),
    "by keyword": (lambda b, m, n: torch.addmm(b, mat2=n, mat1=m), ["transpose", "linear", "add"]),
    "batches summed up": (lambda b, m, n: torch.addbmm(b, m[None], n[None], alpha=2), ["bmm", "sum", "mul", "add"]),
    "batches": (lambda b, m, n: torch.baddbmm(b[None], m[None], n[None], beta=2), ["bmm", "mul", "add"]),
}


@pytest.mark.parametrize("call", SUMS)
def test_s13_products_that_are_added_to_something(call: str) -> None:
    function, names = SUMS[call]
    gm = fx.symbolic_trace(function)
    arguments = [torch.randn(2, 4), torch.randn(2, 3), torch.randn(3, 4)]
    expected = gm(*arguments)
    split_bias(gm)
    assert torch.allclose(gm(*arguments), expected, atol=1e-6)
    operations = [
        getattr(node.target, "__name__", node.target) for node in gm.graph.nodes if node.op.startswith("call")
    ]
    assert [name for name in operations if name != "getitem"] == names


def test_a_nan_that_addmm_takes_no_notice_of_stays_unnoticed() -> None:
    gm = split_bias(fx.symbolic_trace(lambda b, m, n: torch.addmm(b, m, n, beta=0)))
    assert gm(torch.full((2, 4), torch.nan), torch.ones(2, 3), torch.ones(3, 4)).isfinite().all()


class WithHook(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 4))
        self[0].register_forward_hook(lambda module, args, out: out * 2)


class Switches(nn.Module):
    """Calls under other switches than those around the model."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            h = self.a(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = torch.addmm(self.b.bias, self.b(h), self.b.weight)
        out: torch.Tensor = self.c(h.float())
        return out


def test_calls_under_other_switches_are_split_under_the_same() -> None:
    model, x = Switches(), torch.randn(2, 4)
    with Proxy.trace(model) as trace:
        expected = model(x)
    gm = trace.graph(split_bias=True)
    made = gm(x)
    made.sum().backward()
    assert made.dtype == expected.dtype
    assert torch.allclose(made, expected, atol=0.1)
    assert {name for name, each in gm.named_parameters() if each.grad is None} == {"a.weight", "a.bias"}
    names = [
        str(getattr(node.target, "__name__", node.target)) for node in gm.graph.nodes if node.op.startswith("call")
    ]
    assert [name for name in names if name.startswith("addmm")] == []
    assert [name for name in names if name.startswith("add")] == ["add_without_grad", *["add_autocast"] * 2, "add"]


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(WithHook(), id="hooks"),
        pytest.param(nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 1, 3, padding_mode="circular")), id="padding"),
        pytest.param(nn.Sequential(nn.BatchNorm1d(4)), id="another layer"),
        pytest.param(nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))), id="another class"),
    ],
)
def test_what_a_layer_does_besides_is_not_lost(model: nn.Module) -> None:
    gm = traced(model, leaves=True)
    x = torch.randn(3, 4)
    expected = model(x)
    code = gm.code
    assert split_bias(gm).code == code
    assert torch.equal(gm(x), expected)


def test_a_bias_is_added_in_the_dtype_of_the_layer_under_autocast() -> None:
    model, x = nn.Sequential(nn.Linear(4, 5), nn.Tanh()), torch.randn(3, 4)
    gm = traced(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ShapeProp(gm).propagate(x)
        expected = model(x)
        made = split_bias(gm)(x)
    assert made.dtype == expected.dtype == torch.bfloat16
    assert torch.allclose(made, expected, atol=2e-2)
