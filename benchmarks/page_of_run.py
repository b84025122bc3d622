"""Measures the cost of the page of a long run: seconds, memory, and the size of the page.

Makes a trace of 100,000 steps, each with its loss and its optimizer's step. Of 10,000 parameters in a model of 5,000
layers each 2,000th step is recorded in full, as with `every=2000`; of ten more parameters every step is. So there are
3.4 million records, in which any parameter has 50 to 100,000 updates and gradients. One value in one step is a hundred
times as large as all others, and has to be in the page. The page is made by `proxy-trace report` in a fresh process.

    python benchmarks/page_of_run.py
    python benchmarks/page_of_run.py --steps 10000 --parameters 1000
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDED_TIMES = 50
WATCHED_ALWAYS = 10


def records(steps: int, parameters: int) -> Iterator[events.Event]:
    """The records of the run, in order."""
    yield events.Run(
        events.FORMAT, "20261123T200000-abcdef", "2026-11-23T20:00:00+00:00", 1, "train.py", [], "3.11", "2.13", "0.1"
    )
    chance = random.Random(0)
    yield events.Location(1, "train.py", 10, "main")
    yield events.Module(1, "model", "Net", 1, 0, "INFO", parameters * 1000, 1)
    layers = parameters // 2
    for layer in range(layers):
        yield events.Module(layer + 2, f"model.blocks.{layer // 10}.layers.{layer % 10}", "Linear", 1, 1)
    for number in range(parameters):
        name = f"model.blocks.{number // 20}.layers.{number // 2 % 10}.{('weight', 'bias')[number % 2]}"
        start = drawn(chance)
        yield events.Parameter(number + 1, name, number // 2 + 2, "float32[1000]", "cpu", True, statistics=start)
    group = events.ParameterGroup({"lr": 1e-3}, list(range(1, parameters + 1)))
    yield events.Optimizer(0, 0, id=1, optimizer="AdamW", groups=[group], indices=[0])
    every = max(steps // RECORDED_TIMES, 1)
    spike = steps // 3
    for step in range(steps):
        now = 1000 * step
        yield events.CallModule(now, step, 1, 1, inputs=["float32[8, 10]"], training=True)
        yield events.ReturnModule(now + 100, step, 1, outputs=["float32[8, 10]"], duration_us=100)
        yield events.Backward(now + 200, step, location=1, inputs=["float32[]"], loss_value=chance.random() + 1, loss=1)
        yield events.BackwardEnd(now + 300, step, location=1, duration_us=100)
        yield events.OptimizerStep(now + 400, step, location=1, optimizer="AdamW", tensors=parameters, optimizer_id=1)
        for tensor in range(1, (parameters if step % every == 0 else WATCHED_ALWAYS) + 1):
            scale = 100.0 if step == spike and tensor == 1 else 1.0
            yield events.Gradient(now + 410, step, 1, 1, tensor=tensor, statistics=drawn(chance, scale))
            yield events.Update(now + 420, step, 1, 1, tensor=tensor, statistics=drawn(chance), version=step)
        yield events.OptimizerStepEnd(now + 430, step, location=1, optimizer="AdamW", duration_us=30)
    yield events.RunEnd(1000 * steps, steps)


def drawn(chance: random.Random, scale: float = 1.0) -> events.Statistics:
    """Random statistics like those of float32 tensors: each number is exactly a float32."""
    numbers = (-chance.random(), chance.random(), 3 + chance.random() * scale)
    minimum, maximum, norm = array("f", numbers)
    return events.Statistics(minimum, maximum, norm, bits=f"{chance.getrandbits(64):016x}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, metavar="N")
    parser.add_argument("--parameters", type=int, default=10_000, metavar="N")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="page-of-run-") as name:
        folder = Path(name)
        trace = folder / "20261123T200000-abcdef" / "rank0-1.jsonl"
        trace.parent.mkdir()
        encode = msgspec.json.Encoder().encode
        count = 0
        with trace.open("wb") as file:
            for record in records(arguments.steps, arguments.parameters):
                file.write(encode(record) + b"\n")
                count += 1
        print(f"{count:,} records, {trace.stat().st_size / 1e6:,.0f} MB", flush=True)
        page = folder / "page.html"
        began = time.perf_counter()
        command = [sys.executable, "-m", "proxy_trace", "report", str(trace), "-o", str(page)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
        seconds = time.perf_counter() - began
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        peak, cpu = spent.ru_maxrss * 1024, spent.ru_utime + spent.ru_stime
        size = page.stat().st_size
        print(f"{seconds:.1f} s ({cpu:.1f} s of CPU), {peak / 1e6:.0f} MB of memory, a page of {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
