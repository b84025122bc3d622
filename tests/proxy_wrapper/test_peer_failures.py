"""What is known to go wrong in the best-known tool of this kind, as measured on it; here each goes right.

The first part compares runs bit by bit, the second asks whether the trace says what happened.
"""

from __future__ import annotations

import copy
import gc
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.sgd import sgd

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import (
    Buffer,
    CallFunction,
    CallMethod,
    CallModule,
    Gradient,
    NonFinite,
    OptimizerStep,
    OptimizerStepEnd,
    Parameter,
    ReturnModule,
    SetAttr,
    Update,
)
from tests.conformance.bits import difference, frozen
from tests.proxy_wrapper.programs import Branching, Plain, Tied, images, labels, state_of, train
from tests.proxy_wrapper.traps.copies import optimizer_before
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver

ROOT = Path(__file__).parents[2]


def trained_with(make: Callable[[Any], torch.optim.Optimizer]) -> Callable[[nn.Module], Any]:
    def run(model: nn.Module) -> Any:
        optimizer = make(model.parameters())
        trained = train(model, optimizer, steps=4)
        return trained, optimizer.state_dict()

    return run


def decrement(model: Any) -> Any:
    for _ in range(3):
        model.zero_grad()
        F.cross_entropy(model(images()), labels()).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad  # noqa: PLW2901
                parameter *= 0.99  # noqa: PLW2901
    return state_of(model)


def differentiate(model: nn.Module) -> Any:
    return torch.autograd.grad(F.cross_entropy(model(images()), labels()), list(model.parameters()))


def compare_and_look_up(model: Any) -> Any:
    weight = model.first.weight
    return (
        (weight == 0).sum(), weight is model.first.weight, weight is None, model == model, model != Plain(),
        {model: "model", weight: "weight"}[model], {weight: 1}[weight], model in {model}, type(model).__name__,
        type(weight) is nn.Parameter, isinstance(model, Plain), bool(model.rest), len(model.rest),
        [name for name, found in model.named_modules() if found is model.first], "first" in dir(model),
    )  # fmt: skip


def pass_lists(model: nn.Module) -> Any:
    """A function of torch that writes back through the list it is given: the list is the program's own."""
    parameters = [parameter.detach().clone() for parameter in model.parameters()]
    given: list[Any] = [None] * len(parameters)
    sgd(
        parameters, [torch.ones_like(p) for p in parameters], given,
        weight_decay=0.0, momentum=0.9, lr=0.1, dampening=0.0, nesterov=False, maximize=False,
    )  # fmt: skip
    return parameters, [buffer is not None for buffer in given]


def train_a_deepcopy(model: nn.Module) -> Any:
    train(model, steps=1)
    twin = copy.deepcopy(model)
    return [parameter.requires_grad for parameter in twin.parameters()], train(twin)


def replace_in_forward(model: Any) -> Any:
    class Remembers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: torch.Tensor) -> Any:
            self.last = self.inner(x)
            return self.last * 1

    outer = Remembers()
    Proxy.Proxy(outer, recurse=True) if Proxy.is_proxied(model) else None
    out = outer(images())
    out.sum().backward()
    return out, outer.last, sorted(vars(outer))


SAME: dict[str, tuple[Callable[[], nn.Module], Callable[[Any], Any]]] = {
    "3a SGD momentum: wrong numbers": (Branching, trained_with(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9))),
    "3a tied weights: two parameters for one": (Tied, trained_with(lambda p: torch.optim.AdamW(p, 0.01))),
    "3a an optimizer built before the wrap: stops training": (Plain, optimizer_before),
    "3a Adam foreach": (Plain, trained_with(lambda p: torch.optim.Adam(p, foreach=True))),
    "3a AdamW fused": (Plain, trained_with(lambda p: torch.optim.AdamW(p, fused=True))),
    "3a Adadelta": (Plain, trained_with(lambda p: torch.optim.Adadelta(p))),
    "3a deepcopy: cannot train": (Branching, train_a_deepcopy),
    "3a torch.autograd.grad over parameters: SIGSEGV": (Plain, differentiate),
    "3a `p -= x` silently does nothing": (Plain, decrement),
    "3a `p == 0` returns a bool, type(m) differs, dict lookup fails": (Plain, compare_and_look_up),
    "3a `self.x = tensor` in forward: crash": (Plain, replace_in_forward),
    "6.1 list arguments replaced by copies": (Plain, pass_lists),
}


@pytest.mark.sample(12)
@pytest.mark.parametrize(("build", "use"), SAME.values(), ids=SAME)
def test_results_are_the_same(build: Any, use: Any, level: str, logdir: str, capfd: pytest.CaptureFixture[str]) -> None:
    def outcome(traced: bool) -> Any:
        torch.manual_seed(0)
        model = build()
        if traced:
            Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level)
        torch.manual_seed(1)
        return frozen([use(model), torch.get_rng_state()])

    assert difference(outcome(False), outcome(True)) is None
    assert "proxy_wrapper" not in capfd.readouterr().err


def test_3a_momentum_buffers_are_kept(logdir: str) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level="DEBUG")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train(model, optimizer)
    assert sum(state["momentum_buffer"] is not None for state in optimizer.state.values()) == 4


def test_3a_tied_weights_are_one_parameter_with_two_names(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Tied(), recurse=True, name="net", logdir=logdir)
    train(model, steps=1)
    assert model.again.weight is model.first.weight
    defined = {event.id: event for event in seen.events if isinstance(event, Parameter)}
    (shared,) = (event for event in defined.values() if event.name == "net.first.weight")
    assert shared.aliases == ("net.again.weight",)
    assert sum(isinstance(event, Update) and event.tensor == shared.id for event in seen.events) == 1


def test_3a_updates_by_an_optimizer_older_than_the_proxy_are_seen(logdir: str, seen: MemoryObserver) -> None:
    model = Plain()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(Proxy.Proxy(model, recurse=True, logdir=logdir), optimizer, steps=2)
    assert sum(isinstance(event, Update) and event.cause == "step" for event in seen.events) == 8


def test_3a_a_decrement_by_hand_is_seen(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    decrement(model)
    Proxy.flush()
    assert len({event.tensor for event in seen.events if isinstance(event, Update)}) == 4


@pytest.mark.parametrize("tensor", ["complex", "zero rows", "bool", "float8", "scalar"])
def test_3a_and_6_2_parameters_that_a_fingerprint_trips_over(tensor: str, level: str, logdir: str) -> None:
    values = {
        "complex": torch.ones(2, dtype=torch.complex64),
        "zero rows": torch.empty(0, 4),
        "bool": torch.ones(3, dtype=torch.bool),
        "float8": torch.ones(3).to(torch.float8_e4m3fn),
        "scalar": torch.tensor(1.0),
    }[tensor]
    model = Plain()
    model.odd = nn.Parameter(values, requires_grad=values.is_floating_point() and values.dtype.itemsize > 1)
    Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level)
    train(model)
    assert Proxy._installed.get().active


def changed_after(change: Callable[[torch.Tensor], object], logdir: str, seen: MemoryObserver, shape: Any) -> bool:
    """Whether the trace has an update of a parameter of `shape` after `change`."""
    model = nn.Module()
    model.weight = nn.Parameter(torch.ones(*shape))
    Proxy.Proxy(model, name="net", logdir=logdir)
    Proxy.flush()
    before = len(seen.events)
    with torch.no_grad():
        change(model.weight)
    Proxy.flush()
    return any(isinstance(event, Update) for event in seen.events[before:])


@pytest.mark.parametrize("row", [0, 1, 255, 511])
@pytest.mark.parametrize("column", [0, 127])
def test_6_2_a_change_in_any_row_is_seen(row: int, column: int, logdir: str, seen: MemoryObserver) -> None:
    assert changed_after(lambda weight: weight[row, column].add_(1.0), logdir, seen, (512, 128))


@pytest.mark.parametrize("row", [0, 5, 31])
def test_6_2_a_change_through_data_in_any_row_is_seen(row: int, logdir: str, seen: MemoryObserver) -> None:
    assert changed_after(lambda weight: weight.data[row].zero_(), logdir, seen, (32, 4, 3, 3))


def test_6_2_a_change_under_1e_8_is_seen(logdir: str, seen: MemoryObserver) -> None:
    model = nn.Module()
    model.weight = nn.Parameter(torch.full((4,), 1e-9))
    Proxy.Proxy(model, logdir=logdir)
    Proxy.flush()
    with torch.no_grad():
        model.weight[3] = 2e-9
    Proxy.flush()
    (event,) = (event for event in seen.events if isinstance(event, Update))
    assert event.statistics is not None
    assert event.statistics.maximum == pytest.approx(2e-9)


@pytest.mark.parametrize(("value", "said"), [(float("nan"), "nan"), (float("inf"), "inf"), (1e30, 1e30)])
def test_6_2_nan_infinity_and_1e30_are_told_apart(value: float, said: Any, logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    with torch.no_grad():
        model.first.weight[5, 3] = value
    Proxy.flush()
    (event,) = (event for event in seen.events if isinstance(event, Update))
    assert event.statistics is not None
    assert event.statistics.maximum == (pytest.approx(said) if isinstance(said, float) else said)
    assert event.statistics.nonfinite == (said != 1e30)
    assert any(isinstance(event, NonFinite) for event in seen.events) == (said != 1e30)


def test_6_3_statistics_of_gradients_are_those_of_their_step(logdir: str, seen: MemoryObserver) -> None:
    """`zero_grad(set_to_none=False)` keeps the tensor; what is known of it must not be kept with it."""
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    true = []
    for _ in range(5):
        optimizer.zero_grad(set_to_none=False)
        F.cross_entropy(model(images()), labels()).backward()
        assert model.first.weight.grad is not None
        true.append(model.first.weight.grad.max().item())
        optimizer.step()
    (weight,) = (e.id for e in seen.events if isinstance(e, Parameter) and e.name == "net.first.weight")
    traced = [e.statistics.maximum for e in seen.events if isinstance(e, Gradient) and e.tensor == weight and
              e.statistics]  # fmt: skip
    assert traced == pytest.approx(true)
    assert len(set(traced)) == 5


@pytest.mark.parametrize("end", ["returns", "raises", "exits"])
def test_6_4_the_last_records_are_written(end: str, tmp_path: Path) -> None:
    """The last step before the end is the one that is wanted."""
    script = tmp_path / "script.py"
    last = {"returns": "", "raises": "raise ValueError('the end')", "exits": "sys.exit(3)"}[end]
    script.write_text(
        "import sys, torch\n"
        "import proxy_wrapper.proxy as Proxy\n"
        "model = Proxy.Proxy(torch.nn.Linear(2, 1), name='net', logdir='trace')\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(7):\n"
        "    model(torch.ones(1, 2)).sum().backward()\n"
        f"    optimizer.step()\n{last}\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "runtime"), "SECRET_TOKEN": "hunter2"}
    run_python([script], cwd=tmp_path, env=environment)
    (file,) = tmp_path.glob("trace/*/*.jsonl")
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert sum(record["kind"] == "optimizer_step_end" for record in records) == 7
    assert sum(record["kind"] == "update" for record in records) == 14
    assert "hunter2" not in file.read_text()  # 6.10: its trace folder holds the environment in clear.


def test_6_9_modules_buffers_and_attributes_are_recorded(logdir: str, seen: MemoryObserver) -> None:
    model: Any = Proxy.Proxy(Branching(), recurse=True, name="net", logdir=logdir, log_level="DEBUG")
    train(model, steps=1)
    model.mark = 3
    Proxy.flush()
    buffers = {event.id: event.name for event in seen.events if isinstance(event, Buffer)}
    updated = {buffers[e.tensor] for e in seen.events if isinstance(e, Update) and e.tensor in buffers}
    assert updated == {"net.norm.running_mean", "net.norm.running_var", "net.norm.num_batches_tracked"}
    calls = sum(isinstance(event, CallModule) for event in seen.events)
    assert calls == sum(isinstance(event, ReturnModule) for event in seen.events) == 5
    assert any(isinstance(event, SetAttr) and event.target == "mark" for event in seen.events)
    assert any(type(event) is CallFunction and event.target == "torch.conv2d" for event in seen.events)
    assert any(isinstance(event, CallMethod) and event.target == "backward" for event in seen.events)


def test_3_module_setattr_is_not_replaced_for_the_process(logdir: str) -> None:
    """At INFO not at all; at DEBUG until the last proxy goes."""
    before = nn.Module.__setattr__
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    assert nn.Module.__setattr__ is before
    Proxy.Proxy(model, recurse=True, log_level="DEBUG")
    Proxy.unproxy(model)
    assert nn.Module.__setattr__ is before


def test_3_logdir_and_level_are_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Proxy.Proxy(nn.Linear(1, 1), logdir=tmp_path / "here", log_level="WARNING")(torch.ones(1, 1))
    Proxy.flush()
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    (file,) = tmp_path.glob("here/*/*.jsonl")
    assert "call_module" not in file.read_text()


def test_2a_proxying_again_and_again_records_once(logdir: str, seen: MemoryObserver) -> None:
    model = Plain()
    for _ in range(3):
        Proxy.Proxy(model, recurse=True, name="net", logdir=logdir)
    train(model, steps=1)
    assert sum(isinstance(event, Parameter) for event in seen.events) == 4
    assert sum(isinstance(event, Update) for event in seen.events) == 4


def test_2d_steps_are_counted_by_optimizers_not_by_loops(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        train(model, optimizer, steps=2)
    assert [event.step for event in seen.events if isinstance(event, OptimizerStep)] == [0, 1, 2, 3, 4, 5]
    assert sum(isinstance(event, OptimizerStepEnd) for event in seen.events) == 6


def test_3_views_of_a_parameter_are_not_defined_anew(logdir: str, seen: MemoryObserver) -> None:
    """Indexing made a proxy named "" and logged it in each iteration."""
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level="DEBUG")
    for _ in range(3):
        _ = model.first.weight[:2]
    assert sum(isinstance(event, (Parameter, Buffer)) for event in seen.events) == 4


def test_3_two_threads_do_not_switch_each_other_off(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level="DEBUG")
    barrier = threading.Barrier(2)

    def work() -> None:
        for _ in range(5):
            barrier.wait()
            model(images())

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tanh = [event.thread for event in seen.events if isinstance(event, CallFunction) and event.target == "torch.tanh"]
    assert len(tanh) == 10
    gc.collect()
