"""What is planted in one of two equal programs is what comparing their traces names first.

PROXY_TRUTH_EXAMPLES says how many are drawn of each kind; without it the same few each time.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import proxy_wrapper.proxy as Proxy
from proxy_trace.open_trace import open_trace

if TYPE_CHECKING:
    from proxy_trace.comparison.records.compare_records import RecordComparison

EXAMPLES = int(os.environ.get("PROXY_TRUTH_EXAMPLES", "5"))
STEPS = 4
LAYERS = 3
WIDTH = 5

PROGRAM = """
import torch
from torch import nn
import proxy_wrapper.proxy as Proxy

def flipped(tensor, element, mask):
    bits = tensor.detach().clone().view(torch.int32).flatten()
    bits[element % bits.numel()] ^= mask
    return tensor + (bits.view(torch.float32).view(tensor.shape) - tensor).detach()

class Layer(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number
        self.fc = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return noise(torch.tanh(self.fc(x)), self.number)  # in the layer

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(number) for number in range(LAYERS)])

    def forward(self, x):
        order = list(range(LAYERS))
        if is_due("swap"):
            at = plant["layer"] % (LAYERS - 1)
            order[at], order[at + 1] = order[at + 1], order[at]
        for number in order:
            x = self.layers[number](x)  # the call
            if is_due("more") and number == plant["layer"]:
                x = torch.sin(x)  # one more
        return x

class Optimizer(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        change("parameter", lambda parameter: parameter.data)

def is_due(kind):
    return plant["kind"] == kind and step == plant["step"]

def noise(x, number):
    mask = plant["mask"] if is_due("output") and number == plant["layer"] else 0
    bits = x.detach().clone().view(torch.int32)
    bits.view(-1)[plant["element"] % bits.numel()] ^= mask
    return x + (bits.view(torch.float32) - x).detach()

def change(kind, tensor_of):
    parameters = [each for layer in model.layers for each in layer.fc.parameters()]
    tensor = tensor_of(parameters[plant["tensor"]])
    mask = plant["mask"] if is_due(kind) else 0
    with torch.no_grad():
        tensor.view(torch.int32).view(-1)[plant["element"] % tensor.numel()] ^= mask

torch.manual_seed(1 if plant["kind"] == "seed" else 0)
step = 0
torch.set_float32_matmul_precision("highest")  # Which it is anyway; but to say so is another setting to torch.
was_tf32, had_threads = torch.backends.cuda.matmul.allow_tf32, torch.get_num_threads()
torch.backends.cuda.matmul.allow_tf32 = plant["kind"] == "tf32"
if plant["kind"] == "precision":
    torch.set_float32_matmul_precision("medium")
if plant["kind"] == "threads":
    torch.set_num_threads(had_threads + 1)
model = Proxy.Proxy(Net(), recurse=True, name="model", logdir=logdir, log_level=level, statistics="outputs")
optimizer = Optimizer(model.parameters(), lr=0.5)
inputs = torch.linspace(-1, 1, 3 * WIDTH).view(3, WIDTH)
for step in range(STEPS):
    optimizer.zero_grad()
    batch = torch.cat([inputs, inputs]) if is_due("shape") else inputs
    loss = model(batch).square().sum()  # the root
    loss.backward()
    change("gradient", lambda parameter: parameter.grad)
    optimizer.step()  # the step
Proxy.unproxy(model)
torch.set_float32_matmul_precision("highest")
torch.backends.cuda.matmul.allow_tf32 = was_tf32
torch.set_num_threads(had_threads)
"""

SETTINGS = [
    ("seed", "seed"),
    ("tf32", "cuda.matmul.allow_tf32"),
    ("precision", "float32_matmul_precision"),
    ("threads", "threads"),
]
NONE: dict[str, Any] = {"kind": "none", "step": 0, "layer": 0, "tensor": 0, "element": 0, "mask": 0}
PLANTS = st.fixed_dictionaries(
    {
        "step": st.integers(0, STEPS - 1),
        "layer": st.integers(0, LAYERS - 1),
        "tensor": st.integers(0, 2 * LAYERS - 1),
        "element": st.integers(0, 1000),
        "mask": st.just(1),
    }
)
drawn = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="PROXY_TRUTH_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def run(folder: Path, name: str, plant: dict[str, Any], *, level: str, above: str = "") -> Path:
    """Run the program from a file of its own, with lines `above` it, and give back its trace."""
    script = folder / f"{name}.py"
    script.write_text(above + PROGRAM)
    logdir = folder / name
    scope = {"WIDTH": WIDTH, "LAYERS": LAYERS, "STEPS": STEPS, "plant": plant, "logdir": logdir, "level": level}
    exec(compile(script.read_text(), str(script), "exec"), {"__name__": "train", **scope})
    Proxy._installed.take_down()
    return logdir


def both(folder: str, plant: dict[str, Any], level: str) -> tuple[Path, Path]:
    """The traces of the plain program and of one that has a line more above, and the plant."""
    element = {"element": plant["element"], "tensor": plant["tensor"]}
    first = run(Path(folder), "first", {**NONE, **element}, level=level)
    return first, run(Path(folder), "second", plant, level=level, above="# a line more\n")


def line_of(marker: str) -> int:
    (line,) = [number for number, text in enumerate(PROGRAM.splitlines(), 1) if text.endswith(f"# {marker}")]
    return line


def tensor_name(plant: dict[str, Any]) -> str:
    return f"model.layers.{plant['tensor'] // 2}.fc.{('weight', 'bias')[plant['tensor'] % 2]}"


def records_of(folder: str, plant: dict[str, Any], level: str = "INFO") -> RecordComparison:
    first, second = both(folder, plant, level)
    return open_trace(first).compare_records_with(open_trace(second))


def lines(found: RecordComparison, number: int = 0) -> list[int | None]:
    return [each.place.line if each and each.place else None for each in found.partings[number].records]


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_equal_programs_give_nothing(level: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first, second = both(folder, NONE, level)
        assert open_trace(first).compare_with(open_trace(second)).agrees
        found = open_trace(first).compare_records_with(open_trace(second))
    assert (found.partings, found.counts, found.series, found.limits) == ([], {}, [], [])
    assert found.records > 100


@drawn
@given(plant=PLANTS, kind=st.sampled_from(["output", "gradient", "parameter"]))
def test_the_last_bit_of_one_element_is_named(plant: dict[str, Any], kind: str) -> None:
    plant["kind"] = kind
    name = f"model.layers.{plant['layer']}" if kind == "output" else tensor_name(plant)
    with tempfile.TemporaryDirectory() as folder:
        first, second = both(folder, plant, "INFO")
        earliest = open_trace(first).compare_with(open_trace(second)).differences[0]
    assert (earliest.kind, earliest.name, earliest.first_step) == (kind, name, plant["step"])


@drawn
@given(plant=PLANTS, level=st.sampled_from(["INFO", "DEBUG"]))
def test_one_bit_of_an_activation_is_named(plant: dict[str, Any], level: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = records_of(folder, {**plant, "kind": "output"}, level)
    parting = found.partings[0]
    assert (parting.kind, parting.step, parting.module) == ("value", plant["step"], f"model.layers.{plant['layer']}")
    assert lines(found) == [line_of("the call"), line_of("the call") + 1]
    assert all(record is not None and record.made_from for record in parting.records)
    assert found.series[0].module == parting.module


@drawn
@given(plant=PLANTS)
def test_one_bit_of_a_weight_is_named(plant: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = records_of(folder, {**plant, "kind": "parameter"})
    parting = found.partings[0]
    assert (parting.kind, parting.step, parting.name) == ("value", plant["step"], tensor_name(plant))
    assert parting.module == tensor_name(plant).rpartition(".")[0]
    assert lines(found) == [line_of("the step"), line_of("the step") + 1]


@drawn
@given(plant=PLANTS)
def test_one_more_call_is_named(plant: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first, second = both(folder, {**plant, "kind": "more"}, "DEBUG")
        found = open_trace(first).compare_records_with(open_trace(second))
        step_by_step = open_trace(first).compare_with(open_trace(second))
    parting = found.partings[0]
    assert (parting.kind, parting.only_in, parting.step) == ("more", 1, plant["step"])
    assert (parting.module, parting.name) == ("model", "torch.sin")
    assert lines(found)[1] == line_of("one more") + 1
    assert lines(found)[0] is not None
    (calls,) = step_by_step.calls
    assert calls.first_step == plant["step"]
    assert calls.calls[1] - calls.calls[0] == 1


@drawn
@given(plant=PLANTS, level=st.sampled_from(["INFO", "DEBUG"]))
def test_two_calls_swapped_are_named(plant: dict[str, Any], level: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = records_of(folder, {**plant, "kind": "swap"}, level)
    at = plant["layer"] % (LAYERS - 1)
    (parting,) = [each for each in found.partings if each.kind == "order"]
    assert found.partings[0].step == parting.step == plant["step"]
    assert parting.module in {f"model.layers.{at}", f"model.layers.{at + 1}"}
    assert lines(found, found.partings.index(parting)) == [line_of("the call"), line_of("the call") + 1]


@drawn
@given(plant=PLANTS, level=st.sampled_from(["INFO", "DEBUG"]))
def test_another_shape_is_named(plant: dict[str, Any], level: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = records_of(folder, {**plant, "kind": "shape"}, level)
    (parting,) = [each for each in found.partings if each.kind == "shape"]
    assert (parting.step, parting.rank) == (plant["step"], 0)
    if level == "INFO":
        assert found.partings[0] is parting
        assert parting.module == "model"
        assert lines(found) == [line_of("the root"), line_of("the root") + 1]


@pytest.mark.parametrize(("kind", "setting"), SETTINGS)
def test_another_setting_is_named_first(kind: str, setting: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first, second = both(folder, {**NONE, "kind": kind}, "INFO")
        found = open_trace(first).compare_records_with(open_trace(second))
        step_by_step = open_trace(first).compare_with(open_trace(second))
    assert found.partings[0].kind == "configuration"
    assert setting in [parting.what for parting in found.partings]
    assert setting in [each.name for each in step_by_step.configuration]
    assert not step_by_step.agrees
    others = [parting for parting in found.partings if parting.kind != "configuration"]
    if kind == "seed":
        assert (others[0].kind, others[0].step) == ("value", -1)
    else:
        assert not others
        assert not step_by_step.differences


def test_torch_is_what_it_was() -> None:
    """The program puts back what it set, or other tests would see it."""

    def settings_now() -> list[object]:
        return [
            torch.backends.cuda.matmul.allow_tf32,
            torch.get_float32_matmul_precision(),
            torch.get_num_threads(),
        ]

    before = settings_now()
    with tempfile.TemporaryDirectory() as folder:
        for kind, _ in SETTINGS:
            run(Path(folder), kind, {**NONE, "kind": kind}, level="INFO")
    assert settings_now() == before
