"""torch.compile, torch.export, torch.fx and TorchScript see the program as if it were not traced."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import CallModule, Module
from tests.proxy_wrapper.programs import Plain, images, labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


class Backend:
    """Runs graphs as they are, and keeps their text."""

    def __init__(self) -> None:
        self.graphs: list[str] = []

    def __call__(self, graph_module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        self.graphs.append(str(graph_module.graph))
        return graph_module.forward


def compile_module(model: torch.nn.Module, backend: Backend) -> Callable[..., Any]:
    return torch.compile(model, backend=backend, fullgraph=True)


def compile_in_place(model: torch.nn.Module, backend: Backend) -> Callable[..., Any]:
    model.compile(backend=backend, fullgraph=True)
    return model


def compile_function(model: torch.nn.Module, backend: Backend) -> Callable[..., Any]:
    return torch.compile(lambda x: model(x) * 2, backend=backend, fullgraph=True)


@pytest.mark.parametrize(
    "compile_", [compile_module, compile_in_place, compile_function], ids=lambda function: function.__name__
)
def test_compiles_to_the_same_graphs_and_trains_the_same(compile_: Any, level: str, logdir: str) -> None:
    def run(traced: bool) -> Any:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Plain()
        if traced:
            Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level)
        backend = Backend()
        function = compile_(model, backend)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(function(images()), labels())
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return backend.graphs, losses

    graphs, losses = run(traced=False)
    traced_graphs, traced_losses = run(traced=True)
    assert graphs == traced_graphs
    assert len(graphs) == 1
    assert all(torch.equal(a, b) for a, b in zip(losses, traced_losses, strict=True))


def test_a_compiled_module_is_seen_from_outside(level: str, logdir: str, seen: MemoryObserver) -> None:
    torch._dynamo.reset()
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level=level)
    compiled = torch.compile(model, backend="eager")
    compiled(images())
    names = {event.id: event.name for event in seen.events if isinstance(event, Module)}
    assert [names[event.module] for event in seen.events if isinstance(event, CallModule)] == ["OptimizedModule(net)"]
    model(images())
    called = [names[event.module] for event in seen.events if isinstance(event, CallModule)]
    assert called[1:] == ["net", "net.first", "net.rest", "net.rest.0", "net.rest.1"]


def exported(model: torch.nn.Module) -> str:
    return str(torch.export.export(model, (images(),)).graph)


def exported_strictly(model: torch.nn.Module) -> str:
    return str(torch.export.export(model, (images(),), strict=True).graph)


def symbolically_traced(model: torch.nn.Module) -> str:
    return str(torch.fx.symbolic_trace(model).graph)


def made_by_make_fx(model: torch.nn.Module) -> str:
    return str(make_fx(model)(images()).graph)


def scripted(model: torch.nn.Module) -> str:
    return re.sub(r"___torch_mangle_\d+\.", "", str(torch.jit.script(model).graph))


def jit_traced(model: torch.nn.Module) -> str:
    return re.sub(r"___torch_mangle_\d+\.", "", str(torch.jit.trace(model, images()).graph))


@pytest.mark.parametrize(
    "capture",
    [exported, exported_strictly, symbolically_traced, made_by_make_fx, scripted, jit_traced],
    ids=lambda function: function.__name__,
)
def test_captures_the_same_graph(capture: Any, level: str, logdir: str, capfd: pytest.CaptureFixture[str]) -> None:
    torch._dynamo.reset()
    model = Plain()
    plain = capture(model)
    Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level)
    torch._dynamo.reset()
    assert capture(model) == plain
    assert "tracing failed" not in capfd.readouterr().err


class Growing(torch.nn.Module):
    """Breaks its graph once, and branches on a size."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Plain()

    def forward(self, x: torch.Tensor) -> Any:
        out = self.inner(x)
        torch._dynamo.graph_break()
        return out * 2 if x.shape[0] > 4 else out


@pytest.mark.sample(4)
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # Dynamo reads it.
@pytest.mark.parametrize(
    "proxied", ["before compiling", "after compiling", "while compiled code is warm", "the wrapper"]
)
def test_breaks_and_recompiles_as_without(proxied: str, level: str, logdir: str) -> None:
    """The same graphs, the same breaks, the same recompilations, whenever the proxy comes."""

    def run(traced: bool) -> Any:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        torch.manual_seed(0)
        model = Growing()
        backend = Backend()

        def attach(module: Any) -> None:
            if traced:
                Proxy.Proxy(module, recurse=True, logdir=logdir, log_level=level)

        if proxied == "before compiling":
            attach(model)
        compiled: Any = torch.compile(model, backend=backend)
        if proxied == "after compiling":
            attach(model)
        if proxied == "the wrapper":
            attach(compiled)
        results = [compiled(images())]
        if proxied == "while it is warm":
            attach(model)
        for count in (4, 8, 6, 4):
            out = compiled(images(count))
            F.cross_entropy(out, torch.zeros(count, dtype=torch.int64)).backward()
            results.append(out.detach())
        counters = {key: dict(value) for key, value in torch._dynamo.utils.counters.items() if key != "inline_call"}
        return backend.graphs, counters, results

    graphs, counters, results = run(traced=False)
    Proxy._installed.take_down()
    traced_graphs, traced_counters, traced_results = run(traced=True)
    assert traced_graphs == graphs
    assert len(graphs) > 1
    assert traced_counters == counters
    assert all(torch.equal(a, b) for a, b in zip(results, traced_results, strict=True))


def test_aot_autograd_compiles_the_same(level: str, logdir: str) -> None:
    def run(traced: bool) -> Any:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Plain()
        if traced:
            Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level)
        compiled: Any = torch.compile(model, backend="aot_eager", fullgraph=True)
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            F.cross_entropy(compiled(images()), labels()).backward()
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    assert all(torch.equal(a, b) for a, b in zip(run(traced=False), run(traced=True), strict=True))
