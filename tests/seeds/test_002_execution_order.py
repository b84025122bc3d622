"""The execution order is the one that FSDP's own tracer finds: each feature by its number.

`_ExecOrderTracer` of torch is run beside it, on the same model, and says what is right.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.distributed.fsdp._trace_utils import TracingConfig, _ExecOrderTracer

import proxy_wrapper.proxy as Proxy
from proxy_trace import open_trace
from proxy_trace.order.execution_order import execution_order, is_leaf_of_fsdp
from proxy_wrapper import events
from proxy_wrapper.writing.observers.memory import MemoryObserver
from tests.proxy_wrapper.global_hooks import has_module_hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from proxy_trace.order.execution_order import ExecutionOrder, LeafRule

    OrderOf = Callable[..., ExecutionOrder]

Infos = dict[str, list[tuple[str, list[tuple[str, str]]]]]


class Expected(NamedTuple):
    """What FSDP's tracer says, as qualified names."""

    modules: list[str]
    parameters: list[str]
    infos: Infos


def said_by_fsdp(model: nn.Module, **concrete: Any) -> Expected:
    config = TracingConfig(tracer=fx.Tracer(), concrete_args=concrete or None)
    tracer = _ExecOrderTracer()
    with tracer.patch_tracer(tracer=config.tracer, root_module=model):
        config.tracer.trace(model, config.concrete_args)
    info = tracer.exec_info
    assert info is not None
    module_names = {module: name for name, module in model.named_modules()}
    names = {parameter: name for name, parameter in model.named_parameters()}
    infos = {
        module_names[module]: [
            (module_names[each.module], [(local, names[parameter]) for local, parameter in each.named_params])
            for each in of_module
        ]
        for module, of_module in info.module_to_param_usage_infos.items()
    }
    return Expected(
        [module_names[module] for module in info.module_forward_order],
        [names[parameter] for parameter in info.param_forward_order],
        infos,
    )


def as_expected(order: ExecutionOrder) -> Expected:
    assert order.param_forward_order is not None
    assert order.module_to_param_usage_infos is not None
    infos: Infos = {
        module: [(each.module, each.named_params) for each in of_module]
        for module, of_module in order.module_to_param_usage_infos.items()
    }
    return Expected(order.module_forward_order, order.param_forward_order, infos)


@pytest.fixture(autouse=True)
def no_tracer_is_left() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    Proxy._installed.take_down()


@pytest.fixture
def order_of(tmp_path: Path) -> OrderOf:
    """Calls a model at DEBUG, and gives the order of that call; the events and the stored run say the same."""

    def call(model: nn.Module, *inputs: Any, leaf_rule: LeafRule = "fsdp", **keywords: Any) -> ExecutionOrder:
        observer = MemoryObserver()
        Proxy.observe(observer)
        logdir = tmp_path / f"trace{len(list(tmp_path.iterdir()))}"
        Proxy.Proxy(model, recurse=True, name="model", logdir=str(logdir), log_level="DEBUG")
        model(*inputs, **keywords)
        Proxy.flush()
        Proxy.unproxy(model)
        live = execution_order(observer.events, leaf_rule)
        stored = open_trace(logdir).execution_order(leaf_rule=leaf_rule)
        assert as_expected(stored) == as_expected(live)
        return live

    return call


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.unused = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.a(self.b(self.a(x)) * self.scale)
        return out


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v))
        out: torch.Tensor = x + self.mlp(self.ln2(x))
        return out


class TiedLM(nn.Module):
    pos: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(11, 8)
        self.register_buffer("pos", torch.randn(5, 8))
        self.blocks = nn.ModuleList(Block(8) for _ in range(2))
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.pos
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(x)
        return out


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.h = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.fc(x) * self.h + self.h.view(1, 3)
        return out


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(x)
        return out


class TwoWays(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        out: torch.Tensor = self.a(x) if self.calls % 2 else self.b(x)
        return out


class Reuse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c = TwoWays()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.c(self.c(x))
        return out


class OfPyTorch(nn.Module):
    """The model of `test/distributed/fsdp/test_fsdp_fx.py` in PyTorch's repository."""

    def __init__(self) -> None:
        super().__init__()
        self.weight1 = nn.Parameter(torch.randn(6, 6))
        self.weight2 = nn.Parameter(torch.randn(6, 6))
        self.weight_unused = nn.Parameter(torch.randn(2, 2))
        self.layer0 = nn.Linear(6, 6)
        self.layer1 = nn.Linear(6, 6, bias=False)
        self.layer2 = nn.Sequential(nn.Linear(6, 3, bias=False), nn.ReLU(), nn.Linear(3, 6, bias=False))
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor, run_all_layers: bool) -> torch.Tensor:
        z = self.relu(self.layer2(self.relu(self.layer0(x))))
        z = z @ self.weight1
        if run_all_layers:
            z = self.relu(self.layer1(z))
            z = z @ self.weight2
            z = self.relu(self.layer0(x))
        out: torch.Tensor = z
        return out


class Direct(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w2, self.w3 = (nn.Parameter(torch.ones(3)) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.add(x * self.w1, other=self.w2), self.w3])


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.a(x) if x.sum() > 0 else self.b(x)
        return out


class Rows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(3, 3)
        self.table = nn.Parameter(torch.ones(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.cell(row) * weight for row, weight in zip(x, self.table, strict=True)])


X = torch.ones(2, 3)


def test_f1_the_order_starts_with_the_root_and_has_an_entry_for_each_call(order_of: OrderOf) -> None:
    model = Twice()
    assert order_of(model, X).module_forward_order == ["", "a", "b", "a"] == said_by_fsdp(model).modules


def test_f2_parameters_stand_where_they_are_used_first(order_of: OrderOf) -> None:
    model = Twice()
    wanted = ["a.weight", "a.bias", "b.weight", "b.bias", "scale"]
    assert order_of(model, X).param_forward_order == wanted == said_by_fsdp(model).parameters


def test_f3_tied_weights_are_one_parameter(order_of: OrderOf) -> None:
    model, tokens = TiedLM(), torch.arange(10).view(2, 5)
    order = as_expected(order_of(model, tokens))
    assert order.parameters[0] == "wte.weight"
    assert "head.weight" not in order.parameters
    assert order == said_by_fsdp(model)


def test_f4_usage_infos_say_what_each_module_used(order_of: OrderOf) -> None:
    model = Twice()
    a = ("a", [("weight", "a.weight"), ("bias", "a.bias")])
    b = ("b", [("weight", "b.weight"), ("bias", "b.bias")])
    order = as_expected(order_of(model, X))
    assert order.infos == {"": [a, b, ("", [("scale", "scale")]), a], "a": [a], "b": [b]}
    assert order == said_by_fsdp(model)
    empty = nn.Sequential(nn.ReLU())
    assert as_expected(order_of(empty, X)).infos == {"": [], "0": []} == said_by_fsdp(empty).infos


def test_f5_a_childs_parameters_have_their_names_in_the_child_and_others_qualified_ones(order_of: OrderOf) -> None:
    model = Nested()
    order = as_expected(order_of(model, X))
    h = ("inner", [("inner.h", "inner.h")])
    assert order.infos["inner"] == [("inner.fc", [("weight", "inner.fc.weight"), ("bias", "inner.fc.bias")]), h, h]
    assert order.infos[""] == [
        ("inner", [("h", "inner.h"), ("fc.weight", "inner.fc.weight"), ("fc.bias", "inner.fc.bias")])
    ]
    assert order == said_by_fsdp(model)


def test_f6_a_container_appears_with_all_its_parameters(order_of: OrderOf) -> None:
    model = TiedLM()
    order = as_expected(order_of(model, torch.arange(10).view(2, 5)))
    used = [(module, [local for local, _ in named]) for module, named in order.infos["blocks.0"]]
    assert used == [
        ("blocks.0.ln1", ["weight", "bias"]),
        ("blocks.0.qkv", ["weight", "bias"]),
        ("blocks.0.proj", ["weight", "bias"]),
        ("blocks.0.ln2", ["weight", "bias"]),
        ("blocks.0.mlp", ["0.weight", "0.bias", "2.weight", "2.bias"]),
    ]
    assert order.infos == said_by_fsdp(model).infos


def test_f7_of_a_module_that_is_called_twice_the_last_call_counts(order_of: OrderOf) -> None:
    model = Reuse()
    order = as_expected(order_of(model, X))
    assert order.infos["c"] == [("c.b", [("weight", "c.b.weight"), ("bias", "c.b.bias")])]
    assert order == said_by_fsdp(Reuse())


@pytest.mark.parametrize("run_all_layers", [pytest.param(True, id="f8"), pytest.param(False, id="f9")])
def test_f8_f9_the_lists_are_those_of_pytorchs_own_test(order_of: OrderOf, run_all_layers: bool) -> None:
    model = OfPyTorch()
    order = as_expected(order_of(model, torch.ones(2, 6), run_all_layers))
    modules = ["", "layer0", "relu", "layer2", "layer2.0", "layer2.1", "layer2.2", "relu"]
    parameters = ["layer0.weight", "layer0.bias", "layer2.0.weight", "layer2.2.weight", "weight1"]
    if run_all_layers:
        modules += ["layer1", "relu", "layer0", "relu"]
        parameters += ["layer1.weight", "weight2"]
    assert (order.modules, order.parameters) == (modules, parameters)
    assert order == said_by_fsdp(model, run_all_layers=run_all_layers)


def test_f10_afterwards_everything_is_as_it_was(order_of: OrderOf) -> None:
    model = Twice()
    before = {name: value for name, value in vars(model).items() if not name.startswith("_")}
    expected = model(X)
    order_of(model, X)
    Proxy._installed.take_down()
    assert not has_module_hooks()
    assert torch._C._len_torch_function_stack() == 0
    assert {name: value for name, value in vars(model).items() if not name.startswith("_")} == before
    assert torch.equal(model(X), expected)


def test_parameters_that_are_given_by_keyword_or_in_a_list_are_not_missed(order_of: OrderOf) -> None:
    """Where FSDP's tracer misses them."""
    model = Direct()
    assert order_of(model, X[0]).param_forward_order == ["w1", "w2", "w3"]
    assert said_by_fsdp(model).parameters == ["w1"]


@pytest.mark.parametrize(
    ("model", "parameters"),
    [(Branch(), ["a.weight", "a.bias"]), (Rows(), ["table", "cell.weight", "cell.bias"])],
    ids=["branches on a value", "goes over a tensor"],
)
def test_models_that_refuse_symbolic_tracing_have_an_order(
    order_of: OrderOf, model: nn.Module, parameters: list[str]
) -> None:
    with pytest.raises(Exception, match=r"symbolically traced|cannot be iterated"):
        said_by_fsdp(model)
    model(X).sum().backward()
    order = order_of(model, X)
    assert order.param_forward_order == parameters
    assert set(parameters) == {name for name, each in model.named_parameters() if each.grad is not None}


def test_the_leaf_rule_is_the_one_of_fx_for_every_class_of_torch_nn() -> None:
    """Decided from the names of a class and of what defines it, as a trace has them."""
    import torch.ao.nn.intrinsic.qat
    import torch.ao.nn.intrinsic.quantized
    import torch.ao.nn.quantized

    classes: set[type[nn.Module]] = {nn.Module}
    for _ in range(8):
        classes |= {below for each in classes for below in each.__subclasses__()}
    parametrized = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    sequential: Any = nn.Sequential()
    sequential.register_parameter("weight", nn.Parameter(torch.ones(2)))
    nn.utils.parametrize.register_parametrization(sequential, "weight", nn.Identity())
    classes |= {type(parametrized), type(sequential)}
    of_torch = {each for each in classes if each.__module__.startswith(("torch.nn", "torch.ao", "torch._dynamo"))}
    of_torch = {each for each in of_torch if not inspect.isabstract(each)}
    assert len(of_torch) > 200
    wrong = []
    for each in of_torch | {Twice, TiedLM}:
        definition = events.Module(1, "model", each.__name__, 1, module_of_type=each.__module__)
        if is_leaf_of_fsdp(definition) != fx.Tracer().is_leaf_module(object.__new__(each), "model"):
            wrong.append(each)
    assert wrong == []
