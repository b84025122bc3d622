"""Which tests and loops of a model's code are recorded, and that nothing else changes."""

from __future__ import annotations

import functools
import inspect
import linecache
import pickle
import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.errors import SettingsTypeError
from proxy_wrapper.events import FlowStep, Location, Problem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def times(number: int) -> int:
    return 3 if number > 1 else 2


def plainly_wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def properly_wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    @plainly_wrapped
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = torch.dropout(x, 0.5, train=True)
        result: torch.Tensor = self.fc(x)
        return result


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.scale = Scale()

    @properly_wrapped
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(times(x.shape[0])):
            x = x + self.inner(x) * self.scale.of(i)
        return x

    @property
    def depth(self) -> int:
        return 1 if self.training else 0


class Scale:
    def of(self, i: int) -> float:
        return 0.5 if i else 1.0


def steps(seen: MemoryObserver) -> list[tuple[Any, ...]]:
    return [
        (each.construct, each.text, each.value if each.iterations is None else each.iterations)
        for each in seen.events
        if isinstance(each, FlowStep)
    ]


def train(*, flow: bool | None, level: str, logdir: str) -> list[torch.Tensor]:
    torch.manual_seed(3)
    model = Net()
    if flow is not None:
        Proxy.Proxy(model, recurse=True, name="model", logdir=logdir, log_level=level, flow=flow)
    optimizer = torch.optim.Adam(model.parameters())
    found: list[torch.Tensor] = []
    for size in (1, 3, 2):
        loss = model(torch.randn(size, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return [*found, *(each.detach() for each in model.parameters()), torch.get_rng_state()]


def test_training_is_the_same_to_the_bit(level: str, logdir: str) -> None:
    plain = train(flow=None, level=level, logdir=logdir)
    traced = train(flow=True, level=level, logdir=logdir)
    assert all(torch.equal(one, other) for one, other in zip(plain, traced, strict=True))


def test_the_model_s_functions_and_what_they_call_are_seen(seen: MemoryObserver, logdir: str) -> None:
    model = Proxy.Proxy(Net(), recurse=True, name="model", logdir=logdir, flow=True)
    model(torch.ones(1, 4))
    inner = ("if", "x.sum() > 0", True)
    assert steps(seen) == [
        ("ifexp", "number > 1", False),
        inner,
        ("ifexp", "i", False),
        ("if", "x.sum() > 0", bool(steps(seen)[3][2])),
        ("ifexp", "i", True),
        ("for", "i in range(times(x.shape[0]))", 2),
    ]
    assert model.depth == 1
    assert steps(seen)[-1] == ("ifexp", "self.training", True)


def test_a_step_has_the_line_of_its_test_and_its_module(seen: MemoryObserver, logdir: str) -> None:
    model = Proxy.Proxy(Net(), recurse=True, name="model", logdir=logdir, flow=True)
    model(torch.ones(1, 4))
    locations = {each.id: each for each in seen.events if isinstance(each, Location)}
    lines = inspect.getsource(inspect.getmodule(Net) or Net).splitlines()
    modules = set()
    for each in seen.events:
        if isinstance(each, FlowStep):
            assert each.text.partition(" in ")[2] or each.text in lines[locations[each.location].line - 1]
            modules.add(each.module)
    assert len(modules) == 2


def test_functions_run_their_own_code_again_afterwards(logdir: str) -> None:
    wrapped = inspect.unwrap(Net.forward)
    codes = [times.__code__, wrapped.__code__, Scale.of.__code__]
    model = Proxy.Proxy(Net(), recurse=True, logdir=logdir, flow=True)
    assert [times.__code__, wrapped.__code__, Scale.of.__code__] != codes
    assert inspect.getsource(times).startswith("def times")
    assert times.__code__.co_firstlineno == codes[0].co_firstlineno
    Proxy.unproxy(model)
    assert [times.__code__, wrapped.__code__, Scale.of.__code__] == codes


def test_nothing_is_replaced_without_it(seen: MemoryObserver, logdir: str) -> None:
    code = times.__code__
    model = Proxy.Proxy(Net(), recurse=True, logdir=logdir)
    model(torch.ones(1, 4))
    assert times.__code__ is code
    assert steps(seen) == []
    tracer = Proxy._installed.tracer
    assert tracer is not None
    assert all(channel.before_event is None for channel in tracer.channels.values())


def test_it_is_inherited_and_can_be_set_below(seen: MemoryObserver, logdir: str) -> None:
    model = Proxy.Proxy(Net(), recurse=True, logdir=logdir, flow=True)
    Proxy.Proxy(model.inner, flow=False)
    model(torch.ones(1, 4))
    assert "x.sum() > 0" not in [text for _, text, _ in steps(seen)]
    assert ("ifexp", "number > 1", False) in steps(seen)
    Proxy.Proxy(model, recurse=True, flow=False)
    before = len(steps(seen))
    model(torch.ones(1, 4))
    assert len(steps(seen)) == before


def test_there_are_none_at_level_warning(seen: MemoryObserver, logdir: str) -> None:
    model = Proxy.Proxy(Net(), recurse=True, logdir=logdir, log_level="WARNING", flow=True)
    model(torch.ones(1, 4))
    assert steps(seen) == []


def test_sampling_holds_for_them(seen: MemoryObserver, logdir: str) -> None:
    model = Proxy.Proxy(Net(), recurse=True, logdir=logdir, flow=True, every=2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    counts = []
    for _ in range(4):
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        counts.append(len(steps(seen)))
    assert counts == [6, 6, 12, 12]


def test_an_argument_of_another_type_is_refused() -> None:
    with pytest.raises(SettingsTypeError, match="True or False"):
        Proxy.Proxy(Net(), flow="yes")  # type: ignore[arg-type]


def test_a_module_that_raises_ends_its_loops(seen: MemoryObserver, logdir: str) -> None:
    model = Proxy.Proxy(Net(), recurse=True, logdir=logdir, flow=True)
    with pytest.raises(RuntimeError) as raised:
        model(torch.ones(1, 5))
    files = {each.frame.code.raw.co_filename for each in raised.traceback}
    assert not any(file == "<flow steps>" or "proxy_wrapper" in file.partition("runtime")[2] for file in files)
    Proxy.flush()
    assert steps(seen)[-1] == ("for", "i in range(times(x.shape[0]))", 1)


SOURCE = """
from torch import nn
class Changed(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x
"""


def test_a_file_that_has_changed_on_disk_is_named_once(seen: MemoryObserver, logdir: str, tmp_path: Path) -> None:
    file = tmp_path / "changed.py"
    scope: dict[str, Any] = {"__name__": "changed"}
    exec(compile(SOURCE, str(file), "exec", dont_inherit=True), scope)
    file.write_text(SOURCE.replace("> 0", "> 7"))
    models = [Proxy.Proxy(scope["Changed"](), logdir=logdir, flow=True) for _ in range(2)]
    for model in models:
        assert torch.equal(model(torch.ones(2)), torch.full((2,), 2.0))
    assert steps(seen) == []
    told = [each.message for each in seen.events if isinstance(each, Problem)]
    assert len(told) == 1
    assert str(file) in told[0]


def test_a_cell_of_a_notebook_is_observed(seen: MemoryObserver, logdir: str) -> None:
    name = "<ipython-input-1-abc>"
    linecache.cache[name] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(SOURCE, name, "exec", dont_inherit=True), scope)
    model = Proxy.Proxy(scope["Changed"](), logdir=logdir, flow=True)
    model(torch.ones(2))
    assert steps(seen) == [("if", "x.sum() > 0", True)]


class Looping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        kept = [each for each in (1, 2, 3) if each > 1]
        for row in x:
            x = x + row
        if x.shape[0] > 1:
            x = x * kept[0]
        return x


class Scripted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 1:
            x = x + 1
        return x


class Branching(Looping):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1 if x.sum() > 0 else x - 1
        return super().forward(x)


@pytest.mark.parametrize("kind", [Looping, Branching])
def test_code_is_compiled_to_the_same_graphs(kind: type[nn.Module], logdir: str) -> None:
    found = []
    for flow in (None, True):
        torch.manual_seed(0)
        model = kind()
        if flow:
            Proxy.Proxy(model, recurse=True, logdir=logdir, flow=True)
        torch._dynamo.reset()
        explained = torch._dynamo.explain(model)(torch.ones(2, 4))
        torch._dynamo.reset()
        results = [torch.compile(model, backend="eager")(x) for x in (torch.ones(2, 4), -torch.ones(1, 4))]
        lines = [each.user_stack[-1].lineno for each in explained.break_reasons]
        found.append((explained.graph_count, explained.graph_break_count, explained.op_count, lines, results))
    assert found[0][:4] == found[1][:4]
    assert all(torch.equal(one, other) for one, other in zip(found[0][4], found[1][4], strict=True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_traced_and_an_exported_model_are_as_without(logdir: str) -> None:
    model = Proxy.Proxy(Looping(), recurse=True, logdir=logdir, flow=True)
    x = torch.ones(2, 4)
    assert torch.equal(torch.export.export(model, (x,)).module()(x), model(x))
    assert torch.equal(torch.jit.trace(model, (x,))(x), model(x))


def test_a_model_that_is_pickled_or_called_on_another_thread(logdir: str) -> None:
    model, x = Looping(), torch.randn(2, 4)
    wanted = model(x)
    Proxy.Proxy(model, recurse=True, logdir=logdir, flow=True)
    found: list[torch.Tensor] = [pickle.loads(pickle.dumps(model))(x)]
    thread = threading.Thread(target=lambda: found.append(model(x)))
    thread.start()
    thread.join()
    assert torch.equal(found[0], wanted)
    assert torch.equal(found[1], wanted)


def test_a_scripted_model_that_is_proxied(logdir: str) -> None:
    model, x = Scripted(), torch.randn(2, 4)
    Proxy.Proxy(model, recurse=True, logdir=logdir, flow=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated.
        scripted = torch.jit.script(model)
    assert torch.equal(scripted(x), x + 1)
    assert torch.equal(model(x), x + 1)


def test_a_class_of_which_there_is_no_source_runs_as_it_is(seen: MemoryObserver, logdir: str) -> None:
    scope: dict[str, Any] = {}
    exec(
        "from torch import nn\nclass Made(nn.Module):\n    def forward(self, x): return x if x.sum() > 0 else -x", scope
    )
    model = scope["Made"]()
    before = scope["Made"].forward.__code__
    Proxy.Proxy(model, recurse=True, logdir=logdir, flow=True)
    assert torch.equal(model(-torch.ones(2)), torch.ones(2))
    assert scope["Made"].forward.__code__ is before
