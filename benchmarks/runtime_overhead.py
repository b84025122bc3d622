"""Measures what tracing costs a training step: time, memory, and size of the trace.

Each variant (plain, plain once more as the control, traced at INFO, traced at DEBUG) trains in a process of its own.
The driver lets the processes run in turn, a small block of steps each, in another order every round, so that whatever
else the machine does hits all of them alike; and all of it is done in several launches, since where a process happens
to lie in memory is good for some per cent. What is reported is the median over rounds of block time / plain's block
time of the same round. Both clocks run until the trace of the block is handed to the operating system, so that the
writer's work is counted and not done while another variant is measured.

    python benchmarks/runtime_overhead.py --quick
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import nn

VARIANTS = ("plain", "control", "INFO", "DEBUG")
WARMUP_STEPS = 5


class Workload(NamedTuple):
    """What is trained: `build` gives the model and the function that makes one step; `targets` bound the CPU ratio."""

    title: str
    build: Callable[[Callable[[nn.Module], nn.Module]], tuple[nn.Module, Callable[[], None]]]
    steps_per_round: int
    targets: dict[str, float]


MEMORY_TARGET = 1.05


@dataclass(frozen=True)
class Measurement:
    """One variant of one workload, beside plain. Ratios are to plain; `cpu_low` and `cpu_high` are quartiles.

    `wall_ms` and `cpu_ms` are for one step; `rounds` counts those of all launches. `peak_memory_mb` is the highest
    resident size of the process. `weights_equal` says whether all final weights are bit for bit those of plain after
    the same steps.
    """

    workload: str
    variant: str
    launches: int
    rounds: int
    steps_per_round: int
    wall_ms: float
    cpu_ms: float
    wall_ratio: float
    cpu_ratio: float
    cpu_low: float
    cpu_high: float
    target: float | None
    target_met: bool | None
    records_per_step: float
    bytes_per_step: float
    peak_memory_mb: float
    memory_ratio: float
    memory_target_met: bool
    weights_equal: bool


# ------------------------------------------------------------------------------------------ what is trained
# These functions run in the workers only: the driver never imports torch, whose memory the workers would inherit
# as their `ru_maxrss`.


def _mnist(batch_size: int, trace: Callable[[nn.Module], nn.Module]) -> tuple[nn.Module, Callable[[], None]]:
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(1, 32, 3, 1)
            self.conv2 = nn.Conv2d(32, 64, 3, 1)
            self.dropout1 = nn.Dropout(0.25)
            self.dropout2 = nn.Dropout(0.5)
            self.fc1 = nn.Linear(9216, 128)
            self.fc2 = nn.Linear(128, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.relu(self.conv2(F.relu(self.conv1(x))))
            x = torch.flatten(self.dropout1(F.max_pool2d(x, 2)), 1)
            return F.log_softmax(self.fc2(self.dropout2(F.relu(self.fc1(x)))), dim=1)

    model = trace(Net())
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    data = torch.randn(8, batch_size, 1, 28, 28)
    target = torch.randint(10, (8, batch_size))
    count = 0

    def step() -> None:
        nonlocal count
        optimizer.zero_grad()
        loss = F.nll_loss(model(data[count % 8]), target[count % 8])
        loss.backward()
        optimizer.step()
        count += 1

    return model, step


def _transformer(trace: Callable[[nn.Module], nn.Module]) -> tuple[nn.Module, Callable[[], None]]:
    import torch
    import torch.nn.functional as F
    from torch import nn

    width, heads, layers, length, batch_size, vocabulary = 128, 4, 4, 64, 16, 256

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            qkv = self.qkv(x).view(batch_size, length, 3, heads, width // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (B, heads, T, width / heads) each
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            out: torch.Tensor = self.out(y.transpose(1, 2).reshape(batch_size, length, width))
            return out

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1 = nn.LayerNorm(width)
            self.attention = Attention()
            self.norm2 = nn.LayerNorm(width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.attention(self.norm1(x))
            out: torch.Tensor = x + self.mlp(self.norm2(x))
            return out

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.positions = nn.Parameter(0.02 * torch.randn(length, width))
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(self.norm(self.blocks(self.tokens(x) + self.positions)))
            return out

    model = trace(Transformer())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    data = torch.randint(vocabulary, (8, batch_size, length + 1))
    count = 0

    def step() -> None:
        nonlocal count
        tokens = data[count % 8]
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, vocabulary), tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        count += 1

    return model, step


WORKLOADS = {
    "mnist": Workload(
        "MNIST convolutional network, batch 64, Adadelta",
        lambda trace: _mnist(64, trace),
        5,
        {"INFO": 1.05, "DEBUG": 1.10},
    ),
    "mnist-batch1": Workload(
        "the same, batch 1",
        lambda trace: _mnist(1, trace),
        20,
        {"INFO": 1.15, "DEBUG": 1.45},
    ),
    "transformer": Workload(
        "decoder-only transformer of 4 layers (own attention on F.scaled_dot_product_attention), "
        "width 128, 4 heads, 64 tokens, batch 16, AdamW",
        _transformer,
        5,
        {"INFO": 1.10, "DEBUG": 1.30},
    ),
}


# ------------------------------------------------------------------------------------------ the worker


def run_worker(workload: str, variant: str, logdir: str) -> None:
    """Train on command: reads one number of steps per line from stdin, answers each with a line of JSON."""
    import torch

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Whatever else prints must not come between the answers.

    torch.set_num_threads(1)
    torch.manual_seed(0)
    flush: Callable[[], None] = lambda: None  # noqa: E731

    def trace(model: nn.Module) -> nn.Module:
        nonlocal flush
        if variant not in ("INFO", "DEBUG"):
            return model
        import proxy_wrapper.proxy as Proxy

        flush = Proxy.flush
        level = getattr(Proxy, variant)
        return Proxy.Proxy(model, recurse=True, name="model", logdir=logdir, log_level=level)

    model, step = WORKLOADS[workload].build(trace)
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            step()
        flush()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        records, size = _trace_size(logdir)
        answer = {
            "wall": wall,
            "cpu": cpu,
            "records": records,
            "bytes": size,
            "weights": _weights_hash(model),
            "peak_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }
        print(json.dumps(answer), file=answers, flush=True)


def _trace_size(logdir: str) -> tuple[int, int]:
    """Lines and bytes of all files below `logdir`, read in small pieces that leave the peak memory alone."""
    records = size = 0
    for path in Path(logdir).rglob("*.jsonl"):
        with path.open("rb") as file:
            while piece := file.read(1 << 16):
                records += piece.count(b"\n")
                size += len(piece)
    return records, size


def _weights_hash(model: nn.Module) -> str:
    """The SHA-256 of the bytes of all parameters and buffers, in order."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(memoryview(tensor.detach().contiguous().numpy()).cast("B"))
    return digest.hexdigest()


# ------------------------------------------------------------------------------------------ the driver


class Worker:
    """A process that trains one variant of a workload when told to."""

    def __init__(self, workload: str, variant: str, logdir: Path) -> None:
        self.variant = variant
        logdir.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker", variant, "--workload", workload, "--logdir", str(logdir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def train(self, steps: int) -> dict[str, Any]:
        """Run a block of steps; gives the worker's answer.

        Raises:
            SystemExit: if the worker ended; its own message is on stderr.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{steps}\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # The worker ended, and its answer is missing too.
        answer = process.stdout.readline()
        if not answer:
            raise SystemExit(f"the {self.variant} worker ended with exit code {process.wait()}; see above")
        result: dict[str, Any] = json.loads(answer)
        return result

    def close(self) -> None:
        """Let the worker end, and wait for it."""
        self._process.kill()
        self._process.communicate()


class Launch(NamedTuple):
    """What the workers of one launch answered, by variant: after the warm-up, and after each round."""

    warm: dict[str, dict[str, Any]]
    rounds: list[dict[str, dict[str, Any]]]


def measure(workload: str, launches: int, rounds: int, steps: int) -> list[Measurement]:
    """Train all variants of `workload` in turn, in fresh processes for each launch; one measurement per variant."""
    seen = [_launch(workload, rounds, steps) for _ in range(launches)]
    return [_evaluate(workload, variant, seen, steps) for variant in VARIANTS]


def _launch(workload: str, rounds: int, steps: int) -> Launch:
    with tempfile.TemporaryDirectory(prefix="runtime_overhead-") as folder:
        workers: list[Worker] = []
        try:
            for variant in VARIANTS:  # One by one, so that those that did start are closed if one does not.
                workers.append(Worker(workload, variant, Path(folder) / variant))  # noqa: PERF401
            launch = Launch({worker.variant: worker.train(WARMUP_STEPS) for worker in workers}, [])
            for number in range(rounds):
                first = number % len(workers)
                order = workers[first:] + workers[:first]
                launch.rounds.append({worker.variant: worker.train(steps) for worker in order})
            return launch
        finally:
            for worker in workers:
                worker.close()


def _evaluate(workload: str, variant: str, launches: list[Launch], steps: int) -> Measurement:
    blocks = [block for launch in launches for block in launch.rounds]
    total = len(blocks) * steps

    def ratios(clock: str) -> list[float]:
        return [block[variant][clock] / block["plain"][clock] for block in blocks]

    def per_step(clock: str) -> float:
        return statistics.median(float(block[variant][clock]) for block in blocks) / steps

    def growth(what: str) -> float:
        grown = sum(launch.rounds[-1][variant][what] - launch.warm[variant][what] for launch in launches)
        return float(grown / total)

    def peak_kb(of: str) -> float:
        return statistics.median(float(launch.rounds[-1][of]["peak_kb"]) for launch in launches)

    cpu = ratios("cpu")
    low, _, high = statistics.quantiles(cpu, n=4) if len(cpu) > 1 else (cpu[0], cpu[0], cpu[0])
    target = WORKLOADS[workload].targets.get(variant)
    memory_ratio = peak_kb(variant) / peak_kb("plain")
    return Measurement(
        workload=workload,
        variant=variant,
        launches=len(launches),
        rounds=len(blocks),
        steps_per_round=steps,
        wall_ms=1e3 * per_step("wall"),
        cpu_ms=1e3 * per_step("cpu"),
        wall_ratio=statistics.median(ratios("wall")),
        cpu_ratio=statistics.median(cpu),
        cpu_low=low,
        cpu_high=high,
        target=target,
        target_met=None if target is None else statistics.median(cpu) <= target,
        records_per_step=growth("records"),
        bytes_per_step=growth("bytes"),
        peak_memory_mb=peak_kb(variant) / (1 << 10 if sys.platform != "darwin" else 1 << 20),
        memory_ratio=memory_ratio,
        memory_target_met=memory_ratio <= MEMORY_TARGET,
        weights_equal=all(block[variant]["weights"] == block["plain"]["weights"] for block in blocks),
    )


HEADINGS = (
    "variant", "cpu", "quartiles", "target", "wall", "cpu/step", "records/step", "bytes/step", "memory", "weights",
)  # fmt: skip


def _cells(one: Measurement) -> tuple[str, ...]:
    target = "-" if one.target is None else f"{one.target:.2f} {'met' if one.target_met else 'MISSED'}"
    memory = f"{one.memory_ratio:.3f}" + ("" if one.memory_target_met else f" (> {MEMORY_TARGET}, MISSED)")
    return (
        one.variant,
        f"{one.cpu_ratio:.3f}",
        f"{one.cpu_low:.3f}-{one.cpu_high:.3f}",
        target,
        f"{one.wall_ratio:.3f}",
        f"{one.cpu_ms:.2f} ms",
        f"{one.records_per_step:.1f}",
        f"{one.bytes_per_step:.0f}",
        memory,
        "equal" if one.weights_equal else "DIFFER",
    )


def render(workload: str, measurements: list[Measurement], form: str) -> str:
    """The measurements of one workload as a table, in plain text or Markdown."""
    first = measurements[0]
    title = f"{workload}: {WORKLOADS[workload].title}"
    note = f"{first.rounds} rounds of {first.steps_per_round} steps, in {first.launches} launches"
    rows = [HEADINGS, *(_cells(one) for one in measurements)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    if form == "markdown":
        lines = ["| " + " | ".join(row) + " |" for row in padded]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join([f"### {title}", "", note, "", *lines, ""])
    return "\n".join([title, note, *("  ".join(row).rstrip() for row in padded), ""])


def main() -> int:
    """Run the benchmark; the exit code is 1 if a traced run's weights differ from the plain run's."""
    parser = argparse.ArgumentParser(description="what tracing costs a training step")
    parser.add_argument("--workload", choices=list(WORKLOADS), action="append", help="only this one (repeatable)")
    parser.add_argument("--launches", type=int, help="times to start fresh processes (default: 3; with --quick 1)")
    parser.add_argument("--rounds", type=int, help="rounds per launch (default: 8)")
    parser.add_argument("--steps-per-round", type=int, help="steps per block (default: by workload)")
    parser.add_argument("--format", choices=["text", "json", "markdown"], default="text")
    parser.add_argument("--quick", action="store_true", help="a minute's glance, not for publishing")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--logdir", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        run_worker(args.workload[0], args.worker, args.logdir)
        return 0

    launches = args.launches or (1 if args.quick else 3)
    rounds = args.rounds or 8
    everything: list[Measurement] = []
    if args.format != "json":
        print(f"{platform.machine()}, {os.cpu_count()} cores, one thread, Python {platform.python_version()}:")
        print("ratios to plain, medians over rounds; the targets are for CPU time, the clock that a shared machine")
        print("disturbs least; control is plain once more, and shows the noise")
        print()
    for workload in args.workload or WORKLOADS:
        steps = args.steps_per_round or WORKLOADS[workload].steps_per_round
        measurements = measure(workload, launches, rounds, steps)
        everything += measurements
        if args.format != "json":
            print(render(workload, measurements, args.format), flush=True)
    if args.format == "json":
        print(json.dumps([asdict(one) for one in everything], indent=2))
    return 0 if all(one.weights_equal for one in everything) else 1


if __name__ == "__main__":
    sys.exit(main())
