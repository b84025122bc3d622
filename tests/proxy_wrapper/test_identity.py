"""Tensors made anew in each iteration are related: within one by their numbers, over all by where they are made."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace import open_trace
from proxy_trace.reading.trace import Trace
from proxy_wrapper import events
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    from proxy_wrapper.writing.observers.memory import MemoryObserver


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(x))
        parts = [hidden * weight for weight in (1, 2, 3)]
        for _ in range(2):
            hidden = self.second(hidden)
        return hidden + parts[0] + parts[1] + parts[2]


def calls(seen: MemoryObserver, target: str) -> list[Any]:
    kinds = (events.CallFunction, events.CallMethod)
    return [event for event in seen.events if isinstance(event, kinds) and event.target.endswith(target)]


def test_what_one_call_put_out_is_what_the_next_takes(seen: MemoryObserver, logdir: str) -> None:
    model = Proxy.Proxy(TwoLayers(), recurse=True, logdir=logdir, log_level=Proxy.DEBUG, name="model")
    loss = model(torch.ones(2, 3)).sum()
    loss.backward()
    loss.item()
    (relu,), (total,) = calls(seen, "relu"), calls(seen, "sum")
    returned = {event.module: event.output_ids for event in seen.events if isinstance(event, events.ReturnModule)}
    called = [event for event in seen.events if isinstance(event, events.CallModule)]
    first = called[1].module
    assert relu.input_ids == returned[first]
    assert all(product.input_ids == relu.output_ids for product in calls(seen, "mul"))
    assert called[2].input_ids == relu.output_ids
    assert total.input_ids == returned[called[0].module]
    (backward,) = (event for event in seen.events if isinstance(event, events.Backward))
    assert backward.input_ids == total.output_ids
    reads = [event for event in seen.events if isinstance(event, events.ReadValue) and event.target == "item"]
    assert reads[-1].input_ids == total.output_ids


def test_tensors_of_state_have_names_and_no_numbers(seen: MemoryObserver, logdir: str) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level=Proxy.DEBUG, name="model")
    x = torch.ones(1, 2)
    model(x)
    (linear,) = calls(seen, "linear")
    assert linear.inputs == ("float32[1, 2]", "model.weight", "model.bias")
    assert linear.input_ids[0] > 0
    assert linear.input_ids[1:] == (0, 0)


def test_two_tensors_made_at_one_place_are_told_apart_by_ordinal(seen: MemoryObserver, logdir: str) -> None:
    model = Proxy.Proxy(TwoLayers(), recurse=True, logdir=logdir, log_level=Proxy.DEBUG, name="model")
    for _ in range(2):
        model(torch.ones(2, 3))
    products = calls(seen, "mul")
    assert len({product.location for product in products}) == 1
    assert [product.ordinal for product in products] == [0, 1, 2, 0, 1, 2]
    assert len({number for product in products for number in product.output_ids}) == 6
    second = [event for event in seen.events if isinstance(event, events.CallModule) and event.ordinal]
    assert [event.ordinal for event in second] == [1, 1]


def test_a_tensor_remade_in_each_iteration_has_one_place(seen: MemoryObserver, logdir: str) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level=Proxy.DEBUG, name="model")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(1, 2)).square().mean()
        loss.backward()
        optimizer.step()
    made = calls(seen, "mean")
    assert len({(event.location, event.target, event.ordinal) for event in made}) == 1
    assert [event.step for event in made] == [0, 1, 2]


def test_outside_of_modules_ordinals_begin_anew_with_each_call_of_a_root(seen: MemoryObserver, logdir: str) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level=Proxy.DEBUG, name="model")
    for _ in range(3):
        out = model(torch.ones(1, 2))
        for scale in (1, 2):
            torch.mul(out, scale)
    assert [event.ordinal for event in calls(seen, "mul")] == [0, 1, 0, 1, 0, 1]


def test_a_gradient_is_related_to_its_parameter(seen: MemoryObserver, logdir: str) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level=Proxy.DEBUG, name="model")
    model(torch.ones(1, 2)).sum().backward()
    gradient = model.weight.grad
    assert gradient is not None
    gradient.mul_(2)
    read = [event for event in seen.events if isinstance(event, events.GetAttr) and event.target == "grad"][-1]
    (scaled,) = calls(seen, "mul_")
    assert read.owner == "model.weight"
    assert read.value_id == scaled.input_ids[0] == scaled.output_ids[0] > 0


def test_tensors_given_by_keyword_have_numbers(seen: MemoryObserver, logdir: str, level: str) -> None:
    model = Proxy.Proxy(nn.Bilinear(2, 2, 2), logdir=logdir, log_level=level, name="model")
    x = torch.ones(1, 2)
    model(x, input2=x)
    (called,) = (event for event in seen.events if isinstance(event, events.CallModule))
    (returned,) = (event for event in seen.events if isinstance(event, events.ReturnModule))
    assert returned.keyword_ids == {"input2": called.input_ids[0]}


def test_a_non_finite_output_is_found_at_every_level(seen: MemoryObserver, logdir: str, level: str) -> None:
    class Log(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(x)

    model = Proxy.Proxy(nn.Sequential(Log(), nn.Identity()), recurse=True, logdir=logdir, log_level=level, name="model")
    model(torch.zeros(2))
    found = [event for event in seen.events if isinstance(event, events.NonFinite)]
    names = {event.id: event.name for event in seen.events if isinstance(event, events.Module)}
    assert [names[event.module] for event in found] == ["model.0"]


SCRIPT = """\
import torch
model = torch.nn.Linear(2, 2)
for _ in range(2):
    loss = torch.exp(model(torch.ones(1, 2))).sum()
"""

ADDED = """\
import proxy_wrapper.proxy as Proxy
model = Proxy.Proxy(model, name="model", log_level="DEBUG")
"""


def test_the_place_is_that_of_the_original_file(tmp_path: Path) -> None:
    """Lines that `instrument` added do not count."""
    lines = SCRIPT.splitlines()
    comment = f'# instrument: format=1 source="folder/train.py" sha256={"0" * 64} added=+3,+4'
    script = tmp_path / "instrumented_train.py"
    script.write_text("\n".join([*lines[:2], *ADDED.splitlines(), *lines[2:], comment, ""]))
    runtime = str(Path(Proxy.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": runtime, "OMP_NUM_THREADS": "1"}
    run_python([script.name], cwd=tmp_path, env=environment).check_returncode()
    (file,) = Trace.open(tmp_path / "proxy_trace").files
    read = list(file.read())
    places = {event.id: event for event in read if isinstance(event, events.Location)}
    made = [event for event in read if isinstance(event, events.CallFunction) and event.target.endswith("exp")]
    assert len(made) == 2
    (place,) = {event.location for event in made}
    assert (places[place].file, places[place].line) == ("folder/train.py", 4)


def test_the_reader_follows_a_variable_by_its_place(logdir: str) -> None:
    model = Proxy.Proxy(TwoLayers(), recurse=True, logdir=logdir, log_level=Proxy.DEBUG, name="model")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    Proxy.flush()
    trace = open_trace(logdir)
    line = next(
        number for number, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "torch.relu(" in text
    )
    relu = list(trace.history(f"test_identity.py:{line}:relu"))
    assert [entry.step for entry in relu] == [0, 1, 2]
    assert [entry.inputs for entry in relu] == [["model.first"]] * 3
    assert [[use.by for use in entry.uses] for entry in relu] == [
        ["mul", "mul", "mul", "model.second", "torch._C._nn.linear"]
    ] * 3
    middle = list(trace.history(f"test_identity.py:{line + 1}:mul:1"))
    assert [entry.types for entry in middle] == [["float32[2, 3]"]] * 3
    updates = [entry for entry in trace.history("model.first.weight") if entry.kind in ("gradient", "update")]
    assert [entry.kind for entry in updates] == ["gradient", "update"] * 3


def test_no_tensor_is_kept_alive_or_seen_to_be_watched(logdir: str, level: str) -> None:
    model = Proxy.Proxy(TwoLayers(), recurse=True, logdir=logdir, log_level=level, name="model")
    x = torch.ones(2, 3)
    out = model(x)
    total = out.sum()
    assert [weakref.getweakrefs(tensor) for tensor in (x, out, total)] == [[], [], []]
    assert [vars(tensor) for tensor in (x, out, total)] == [{}, {}, {}]
    dead = [weakref.ref(tensor) for tensor in (x, out, total)]
    del x, out, total
    assert [reference() for reference in dead] == [None, None, None]


def test_a_batch_at_the_address_of_the_last_one_is_another_tensor(
    seen: MemoryObserver, logdir: str, level: str
) -> None:
    """As a loader makes them: where tracing does not see it."""
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level=level, name="model")
    addresses, source = set(), np.ones((4, 2), dtype=np.float32)
    for _ in range(20):
        with torch._C.DisableTorchFunction():
            batch = torch.from_numpy(source)
        addresses.add((id(batch), batch.data_ptr()))
        model(batch)
        del batch
    numbers = [event.input_ids[0] for event in seen.events if isinstance(event, events.CallModule)]
    assert len(set(numbers)) == 20
    assert len(addresses) < 20, "no address was used twice, so this shows nothing"
