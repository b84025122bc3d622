"""What is promised of any device, tried on CUDA where there is one; the same tests run on the CPU everywhere.

On CUDA `torch.cuda.set_sync_debug_mode("error")` says whether anything waits for the device while a program trains.
"""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings
from proxy_wrapper.events import Statistics
from proxy_wrapper.values.pending import Pending
from proxy_wrapper.values.statistics import summarize, unobserved
from tests.devices.deterministic import deterministic
from tests.devices.programs import PROGRAMS, WAITING, batch, bytes_of, make, run
from tests.devices.records import problems, records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
# Of kernels that are not deterministic, of the debug mode being a prototype, of streams under graphs.
pytestmark = pytest.mark.filterwarnings("ignore")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    torch.set_num_threads(1)
    with deterministic():
        yield str(request.param)
    Proxy._installed.take_down()


@pytest.fixture(params=["INFO", "DEBUG"])
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextlib.contextmanager
def without_waiting(device: str) -> Iterator[None]:
    """Let whatever waits for the device raise an error. (The CPU has nothing to wait for.)"""
    if device != "cuda":
        yield
        return
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def traced(folder: Path, level: str) -> Callable[[nn.Module], object]:
    return lambda model: Proxy.Proxy(model, recurse=True, name="model", logdir=folder, log_level=level)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_traced_program_computes_the_same_and_waits_no_more(
    name: str, device: str, level: str, tmp_path: Path
) -> None:
    guard = contextlib.nullcontext if name in WAITING else lambda: without_waiting(device)
    plain = run(name, device, while_training=guard).bytes()
    assert run(name, device, traced(tmp_path, level), while_training=guard).bytes() == plain
    Proxy._installed.take_down()
    assert problems(tmp_path) == []
    found = [each for each in records(tmp_path) if each["kind"] in ("gradient", "update")]
    assert any("statistics" in each for each in found)


DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.complex64, torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (5, 1031), (300, 200)], ids=str)
def test_statistics_are_those_of_the_cpu(dtype: torch.dtype, shape: tuple[int, ...], device: str) -> None:
    torch.manual_seed(0)
    tensor = (torch.randn(shape) * 50).to(torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    there = tensor.to(device)
    turned = tensor.t() if tensor.dim() == 2 else tensor
    turned_there = there.t() if there.dim() == 2 else there
    with unobserved():
        with without_waiting(device):
            pending = summarize([there, turned_there])
        found = [each.resolve() if isinstance(each, Pending) else each for each in pending]
        expected = summarize([tensor, turned])
    for on_device, on_cpu in zip(found, expected, strict=True):
        assert isinstance(on_device, Statistics)
        assert isinstance(on_cpu, Statistics)
        assert on_device.bits == on_cpu.bits
        assert (on_device.minimum, on_device.maximum) == (on_cpu.minimum, on_cpu.maximum)
        assert on_device.nonfinite == on_cpu.nonfinite
        # Each device adds the squares up in an order of its own.
        assert math.isclose(float(on_device.norm or 0), float(on_cpu.norm or 0), rel_tol=1e-5)


def test_compiled_models_train_the_same(device: str, level: str, tmp_path: Path) -> None:
    backend = "inductor" if device == "cuda" else "aot_eager"

    def train(trace: Callable[[nn.Module], object]) -> Any:
        torch._dynamo.reset()
        model, (image, word, label) = make(device), batch(device)
        trace(model)
        compiled = torch.compile(model, backend=backend, fullgraph=True)
        optimizer = torch.optim.AdamW(model.parameters())
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.cross_entropy(compiled(image, word), label)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return bytes_of([*losses, *model.parameters(), *model.buffers()])

    plain = train(lambda model: None)
    assert train(traced(tmp_path, level)) == plain
    Proxy._installed.take_down()
    assert problems(tmp_path) == []


def captured(step: Callable[[], torch.Tensor], device: str) -> Callable[[], torch.Tensor]:
    """`step` as a CUDA graph that is replayed, after the turns on a stream of its own that PyTorch asks for.

    On the CPU, `step` itself after as many turns.
    """
    if device != "cuda":
        for _ in range(3):
            step()
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay() -> torch.Tensor:
        graph.replay()
        return loss

    return replay


def test_whole_steps_are_captured_in_graphs(device: str, level: str, tmp_path: Path) -> None:
    def train(trace: Callable[[nn.Module], object]) -> Any:
        model, (image, word, label) = make(device), batch(device)
        trace(model)
        optimizer = torch.optim.Adam(model.parameters(), capturable=device == "cuda")

        def step() -> torch.Tensor:
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(image, word), label)
            loss.backward()
            optimizer.step()
            return loss.detach()

        again = captured(step, device)
        losses = [again().clone() for _ in range(4)]
        losses.append(step())
        return bytes_of([*losses, *model.parameters(), *model.buffers()])

    plain = train(lambda model: None)
    for turn in range(3 if device == "cuda" else 1):  # What another thread does it may not do at the wrong moment.
        assert train(traced(tmp_path / str(turn), level)) == plain
        Proxy._installed.take_down()
        assert problems(tmp_path / str(turn)) == []


def test_graphed_callables_train_the_same(device: str, level: str, tmp_path: Path) -> None:
    class Half(nn.Module):
        """(n, 1, 8, 8) -> (n, 3): graphed callables are given floats alone."""

        def __init__(self) -> None:
            super().__init__()
            self.conv, self.out = nn.Conv2d(1, 4, 3), nn.Linear(144, 3)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.out(F.relu(self.conv(image)).flatten(1))
            return out

    def train(trace: Callable[[nn.Module], object]) -> Any:
        torch.manual_seed(0)
        model = Half().to(device)
        image, _, label = batch(device)
        trace(model)
        call: Any = model
        if device == "cuda":
            call = torch.cuda.make_graphed_callables(model, (image.clone(),))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.cross_entropy(call(image), label)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return bytes_of([*losses, *model.parameters()])

    plain = train(lambda model: None)
    assert train(traced(tmp_path, level)) == plain
    Proxy._installed.take_down()
    assert problems(tmp_path) == []


EXAMPLES = {
    "mnist": ["--epochs", "1", "--train-samples", "128", "--test-samples", "64", "--log-interval", "1", "--save-model"],
    "dcgan": ["--steps", "4", "--batch-size", "16", "--log-interval", "1"],
    "char_transformer": ["--max-steps", "4", "--log-interval", "1"],
}


PRECISIONS = {"dcgan": "float32"}
"""All others are run in bfloat16: `BCELoss` refuses that on CUDA."""


@pytest.mark.parametrize(
    ("name", "device"),
    [("mnist", "cpu"), *(pytest.param(name, "cuda", marks=pytest.mark.cuda) for name in EXAMPLES)],
)
def test_examples_train_the_same_in_mixed_precision(name: str, device: str, tmp_path: Path) -> None:
    source = (ROOT / "examples" / f"{name}.py").read_bytes()
    traced = instrument_source(source, Settings(), source_name=f"{name}.py").instrumented
    seen = []
    for text, folder in ((source, tmp_path / "plain"), (traced, tmp_path / "traced")):
        folder.mkdir()
        (folder / f"{name}.py").write_bytes(text)
        environment = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runtime"))), "OMP_NUM_THREADS": "1"}
        if device == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""  # The examples take a GPU where there is one.
        command = [str(ROOT / "tests" / "devices" / "deterministic.py"), device]
        command += [PRECISIONS.get(name, "bfloat16"), f"{name}.py"]
        done = subprocess.run(
            [sys.executable, *command, *EXAMPLES[name], "--save-path", "weights.pt"],
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        weights = torch.load(folder / "weights.pt", weights_only=True, map_location="cpu")
        seen.append((done.stdout, done.stderr, bytes_of(tensors_in(weights))))
    assert seen[1] == seen[0]
    (path,) = (tmp_path / "traced").glob("proxy_trace/*/*.jsonl")
    assert path.stat().st_size


def tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value.values() for tensor in tensors_in(each)] if isinstance(value, dict) else []


def test_the_overhead_table_is_made(device: str) -> None:
    """With equal weights, that is: the exit code says so."""
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / "benchmarks" / "runtime_overhead.py"), "--quick", "--device", device),
            *("--workload", "transformer-small", "--variant", "INFO", "--rounds", "1", "--steps-per-round", "3"),
        ],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"training on {device}" in done.stdout
    assert "transformer-small" in done.stdout
