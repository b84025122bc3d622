"""`Proxy.trace` records one call, changes nothing, and leaves nothing behind, whatever happens in the block."""

from __future__ import annotations

import gc
import sys
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.utils import checkpoint

import proxy_wrapper.proxy as Proxy
from proxy_views.errors import (
    CallRaisedError,
    ClosedError,
    InsideTransformError,
    LeafFunctionError,
    NotAModelError,
    NotCalledError,
    RecordingFailedError,
    StillRunningError,
)
from proxy_wrapper.writing.observers.memory import MemoryObserver
from tests.proxy_views.same_results import assert_replays, traced
from tests.proxy_wrapper.global_hooks import has_module_hooks

if TYPE_CHECKING:
    from pathlib import Path


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc(x))


class Recursive(Net):
    def forward(self, x: torch.Tensor, depth: int = 2) -> torch.Tensor:
        y: torch.Tensor = self.fc(x) if depth == 0 else self(x, depth - 1) + 1
        return y


def left_behind() -> list[str]:
    """What of ours is still in torch."""
    apply = vars(torch.autograd.Function)["apply"].__func__.__code__.co_filename
    generator = checkpoint._checkpoint_without_reentrant_generator.__code__.co_filename
    found = [
        name for name, file in (("apply", apply), ("checkpoint", generator)) if "torch" not in file.split("proxy")[0]
    ]
    if torch._C._len_torch_function_stack():
        found.append("function mode")
    if has_module_hooks():
        found.append("module hooks")
    return found


def test_without_a_block_nothing_of_views_is_loaded() -> None:
    import subprocess

    program = (
        "import proxy_wrapper.proxy as Proxy, sys, torch\n"
        "Proxy.Proxy(torch.nn.Linear(1, 1), logdir='/dev/null/x', log_level='WARNING')\n"
        "assert not any(name.startswith('proxy_views') for name in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env={"PYTHONPATH": "runtime"}
    )
    assert "AssertionError" not in done.stderr


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = Net()
    before = dict(vars(model))
    with Proxy.trace(model) as trace:
        assert left_behind() == ["apply", "checkpoint", "function mode", "module hooks"]
        model(torch.randn(2, 3))
    assert left_behind() == []
    assert vars(model) == before
    assert not Proxy.is_proxied(model)
    assert list(tmp_path.iterdir()) == []
    trace.graph()
    assert left_behind() == []


def test_a_block_that_raises_leaves_nothing_behind() -> None:
    model = Net()
    trace = None
    try:
        with Proxy.trace(model) as trace:
            model(torch.randn(2, 3))
            raise KeyError
    except KeyError:
        pass
    assert trace is not None
    assert left_behind() == []
    assert_replays(trace, model, torch.randn(4, 3))


def test_a_model_that_is_not_called_is_said_to_be() -> None:
    model = Net()
    with Proxy.trace(model) as trace:
        model.forward(torch.randn(2, 3))
    for view in (trace.graph, trace.activations, trace.weights, trace.execution_order, lambda: trace.frozen):
        with pytest.raises(NotCalledError, match="Net was not called"):
            view()


def test_a_model_that_raises_is_said_to_have() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(4, 4))
    with Proxy.trace(model) as trace:
        with pytest.raises(RuntimeError, match="shapes"):
            model(torch.randn(2, 3))
        model[0](torch.randn(2, 3))
    with pytest.raises(CallRaisedError, match="call=1"):
        trace.graph()
    assert left_behind() == []


def test_the_call_that_is_asked_for_is_recorded() -> None:
    model = Net()
    with Proxy.trace(model, call=1) as trace:
        first, second = torch.randn(2, 3), torch.randn(5, 3)
        model(first)
        model(second)
    assert torch.equal(trace.activations("x")["x"], second)
    with Proxy.trace(model, call=2) as trace:
        model(first)
    with pytest.raises(NotCalledError, match="called 1 time"):
        trace.graph()


def test_a_model_that_calls_itself_is_one_call() -> None:
    model = Recursive()
    trace = traced(model, torch.randn(2, 3))
    assert_replays(trace, model, torch.randn(4, 3))
    names = [node.name for node in trace.graph().graph.nodes if node.op.startswith("call")]
    assert names == ["linear", "add", "add_1"]


def test_views_wait_for_the_call_to_end() -> None:
    model = Net()
    with Proxy.trace(model) as trace:

        def ask(module: nn.Module, given: Any, output: Any) -> None:
            with pytest.raises(StillRunningError):
                trace.graph()

        model.fc.register_forward_hook(ask)
        model(torch.randn(2, 3))
    trace.graph()


def test_blocks_in_blocks_see_their_own_models() -> None:
    outer = nn.Sequential(Net(), Net())
    inner = outer[0]
    x = torch.randn(2, 3)
    wanted = outer(x)
    with Proxy.trace(outer) as of_outer:
        with Proxy.trace(inner) as of_inner:
            found = outer(x)
        outer(x)
    assert torch.equal(found, wanted)
    y = torch.randn(4, 3)
    assert torch.equal(of_outer.graph()(y), outer(y))
    assert torch.equal(of_inner.graph()(y), inner(y))
    assert left_behind() == []


def test_only_the_thread_of_the_block_is_recorded() -> None:
    model = Net()
    with Proxy.trace(model) as trace:
        other = threading.Thread(target=model, args=(torch.randn(7, 3),))
        other.start()
        other.join()
        with pytest.raises(NotCalledError):
            trace.graph()
        model(torch.randn(2, 3))
    assert trace.activations("x")["x"].shape == (2, 3)


def test_a_proxied_model_stays_so_and_its_trace_is_as_before(tmp_path: Path) -> None:
    def kinds(is_observed: bool) -> list[tuple[str, str]]:
        observer = MemoryObserver()
        Proxy.observe(observer)
        torch.manual_seed(0)
        model = Proxy.Proxy(Net(), recurse=True, logdir=tmp_path / str(is_observed), log_level="DEBUG")
        x = torch.randn(2, 3)
        if is_observed:
            with Proxy.trace(model):
                model(x)
        else:
            model(x)
        assert Proxy.is_proxied(model)
        model(x)
        Proxy._installed.take_down()
        return [(type(each).__name__, getattr(each, "target", "")) for each in observer.events]

    wanted = kinds(is_observed=False)
    assert kinds(is_observed=True) == wanted
    assert ("CallFunction", "torch.relu") in wanted


def test_at_info_a_block_adds_no_events(tmp_path: Path) -> None:
    observer = MemoryObserver()
    Proxy.observe(observer)
    model = Proxy.Proxy(Net(), recurse=True, logdir=tmp_path, log_level="INFO")
    with Proxy.trace(model) as trace:
        model(torch.randn(2, 3))
        torch.ones(2) + 1
    assert {type(each).__name__ for each in observer.events}.isdisjoint({"CallFunction", "CallMethod", "GetAttr"})
    trace.graph()
    assert torch._C._len_torch_function_stack() == 0


def test_a_model_that_is_unproxied_in_the_block_is_still_recorded(tmp_path: Path) -> None:
    model = Proxy.Proxy(Net(), recurse=True, logdir=tmp_path, log_level="INFO")
    with Proxy.trace(model) as trace:
        Proxy.unproxy(model)
        model(torch.randn(2, 3))
    assert_replays(trace, model, torch.randn(2, 3))
    assert left_behind() == []
    assert Proxy._installed.tracer is None


def test_a_block_with_a_logdir_leaves_a_trace_of_the_model(tmp_path: Path) -> None:
    model = Net()
    with Proxy.trace(model, logdir=tmp_path, log_level="DEBUG"):
        model(torch.randn(2, 3))
    assert not Proxy.is_proxied(model)
    (run,) = tmp_path.iterdir()
    assert '"torch.relu"' in next(run.glob("*.jsonl")).read_text()


def test_tensors_are_let_go_of() -> None:
    model = Net()
    with Proxy.trace(model) as trace:
        output = model(torch.randn(2, 3))
    activation = weakref.ref(trace.activations("linear")["linear"])
    del output
    gc.collect()
    assert activation() is not None
    graph = trace.graph()
    trace.close()
    gc.collect()
    assert activation() is None
    with pytest.raises(ClosedError):
        trace.graph()
    assert graph(torch.randn(2, 3)).shape == (2, 3)


def test_a_trace_that_nobody_holds_keeps_nothing() -> None:
    class Keeps(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.rows = x.shape[0]
            self.seen = weakref.ref(y := self.fc(x) + x.shape[1])
            return torch.relu(y)

    model = Keeps()
    gc.disable()
    try:
        with Proxy.trace(model, leaf_functions=[left_behind]) as trace:
            model(torch.randn(2, 3))
        trace.graph()
        assert model.seen() is not None
        del trace
        assert model.seen() is None
        assert model.rows == 2
    finally:
        gc.enable()


def test_a_mistake_of_ours_does_not_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    from proxy_views.recording import Recording

    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("planted")

    model, x = Net(), torch.randn(2, 3)
    wanted = model(x)
    monkeypatch.setattr(Recording, "_after_call", fails)
    with Proxy.trace(model) as trace:
        assert torch.equal(model(x), wanted)
    with pytest.raises(RecordingFailedError, match="planted"):
        trace.graph()


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(NotAModelError, match="list"):
        Proxy.trace([])  # type: ignore[arg-type]
    with pytest.raises(LeafFunctionError, match="relu"):
        Proxy.trace(Net(), leaf_functions=[torch.relu])


def test_compiled_code_is_one_node() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.compile(Net(), backend="eager")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.inner(x) * 2
            return y

    model = Outer()
    x = torch.randn(2, 3)
    wanted = model(x)
    with Proxy.trace(model) as trace:
        assert torch.equal(model(x), wanted)
    graph = trace.graph()
    assert [node.name for node in graph.graph.nodes if node.op.startswith("call")] == ["inner", "mul"]
    y = torch.randn(2, 3)
    assert torch.equal(graph(y), model(y))


def test_a_module_compiled_in_place_is_one_node() -> None:
    model = nn.Sequential(Net(), nn.ReLU())
    model[0].compile(backend="eager")
    x = torch.randn(2, 3)
    with Proxy.trace(model) as trace:
        model(x)
    graph = trace.graph()
    assert [node.op for node in graph.graph.nodes if node.op.startswith("call")] == ["call_module", "call_function"]
    assert torch.equal(graph(x), model(x))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compiling_in_a_block_compiles_what_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs: list[list[str]] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append([node.name for node in graph.graph.nodes])
        return graph.forward

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * 2

    def function(x: torch.Tensor) -> Any:
        y: torch.Tensor = Twice.apply(x)  # type: ignore[no-untyped-call]
        return y + checkpoint.checkpoint(torch.relu, x, use_reentrant=False)

    x = torch.randn(3, requires_grad=True)
    torch.compile(function, backend=backend, fullgraph=True)(x)
    torch._dynamo.reset()
    with Proxy.trace(Net()):
        torch.compile(function, backend=backend, fullgraph=True)(x)
    assert graphs[0] == graphs[1]


def test_export_in_a_block_works() -> None:
    model = Net()
    x = torch.randn(2, 3)
    with Proxy.trace(model) as trace:
        exported = torch.export.export(model, (x,))
        model(x)
    assert torch.equal(exported.module()(x), trace.graph()(x))


def test_warnings_and_errors_are_the_program_s(recwarn: pytest.WarningsRecorder) -> None:
    class Warns(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            warnings.warn("mine", stacklevel=2)
            return x + 1

    with Proxy.trace(Warns()) as trace:
        trace._recording.model(torch.ones(1))  # type: ignore[union-attr]
    (found,) = recwarn.list
    assert str(found.message) == "mine"


@pytest.mark.parametrize(
    "make", [lambda: torch.device("meta"), lambda: torch._subclasses.FakeTensorMode()], ids=["meta", "fake"]
)
def test_it_works_without_data(make: Any) -> None:
    with make():
        model = nn.Sequential(nn.Linear(3, 100_000), nn.ReLU(), nn.Linear(100_000, 2))
        x = torch.randn(2, 3)
        with Proxy.trace(model) as trace:
            model(x)
        graph = trace.graph()
        found = {
            node.name: tuple(node.meta["tensor_meta"].shape) for node in graph.graph.nodes if "tensor_meta" in node.meta
        }
        assert found["linear_1"] == (2, 2)
        assert graph(torch.randn(2, 3)).shape == (2, 2)


def test_a_stored_run_has_no_graph_and_says_why(tmp_path: Path) -> None:
    from proxy_trace import open_trace
    from proxy_trace.errors import NoGraphError

    with Proxy.trace(model := Net(), logdir=tmp_path, log_level="DEBUG"):
        model(torch.randn(2, 3))
    with pytest.raises(NoGraphError, match=r"Proxy\.trace"):
        open_trace(tmp_path).graph()


def test_a_model_whose_code_is_compiled_is_one_node() -> None:
    model, x = Net(), torch.randn(2, 3)
    compiled = torch.compile(model, backend="eager")
    with Proxy.trace(model) as trace:
        found = compiled(x)
    assert torch.equal(found, model(x))
    y = torch.randn(4, 3)
    assert torch.equal(trace.graph()(y), model(y))
    assert trace.frozen == []
    assert left_behind() == []


def test_a_model_that_is_exported_is_not_called_and_said_not_to_be() -> None:
    model, x = Net(), torch.randn(2, 3)
    with Proxy.trace(model) as trace:
        exported = torch.export.export(model, (x,)).module()
        found = exported(x)
    assert torch.equal(found, model(x))
    with pytest.raises(NotCalledError, match="trace the module that they returned"):
        trace.graph()
    assert left_behind() == []


def test_a_model_inside_a_transform_computes_the_same_and_has_no_graph() -> None:
    model, x = Net(), torch.randn(2, 3)
    wanted = torch.vmap(model)(x)
    with Proxy.trace(model) as trace:
        found = torch.vmap(model)(x)
    assert torch.equal(found, wanted)
    with pytest.raises(InsideTransformError, match="Trace a call outside of transforms"):
        trace.graph()
    assert left_behind() == []


def test_blocks_on_several_threads_at_once_record_their_own_calls() -> None:
    model = Net()
    found: dict[int, bool] = {}

    def run(number: int) -> None:
        x, y = torch.randn(number + 2, 3), torch.randn(9, 3)
        for _ in range(5):
            with Proxy.trace(model) as trace:
                wanted = model(x)
        graph = trace.graph()
        found[number] = torch.equal(graph(x), wanted) and torch.equal(graph(y), model(y))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(3), True)
    assert left_behind() == []
