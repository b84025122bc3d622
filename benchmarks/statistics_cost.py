"""Measures what `statistics="outputs"` and `"all"` add to a step, beside what tracing adds without them.

One process trains one model, a few steps each with another variant, in turns: plain (nothing observes), and the levels
with their choices of statistics. So all variants share memory, caches and whatever else the machine does, and what
differs by chance is far smaller than between processes. What is reported is CPU time of the process, with the writer's:
the median over rounds of a variant's mean step in a turn minus plain's in the same round. The first step of a turn is
not measured.

    python benchmarks/statistics_cost.py --seconds 40
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from typing import Final

import torch

import proxy_wrapper.proxy as Proxy
from overhead.tasks import BATCHES, Task, build
from overhead.workloads import WORKLOADS
from proxy_wrapper.values import extents

BESIDE: Final = {("INFO", "outputs"): 1.5, ("DEBUG", "all"): 2.5}
"""The choices, each with the bound on what it adds relative to what its level adds with "state"."""

VARIANTS: Final = [None, *(pair for level, choice in BESIDE for pair in ((level, "state"), (level, choice)))]
"""What takes turns: a level with its choice of statistics; None for plain."""


_MEASURED: Final = 8
"""The measured steps of a turn."""


def measure(name: str, seconds: float) -> dict[tuple[str, str], float]:
    """The milliseconds of CPU time that each variant adds to a step of a workload; under ("", "") a plain step."""
    task = build(name)
    with tempfile.TemporaryDirectory() as folder:
        Proxy.Proxy(task.model, True, folder, "INFO", "model")
        taken: dict[tuple[str, str] | None, list[int]] = {variant: [] for variant in VARIANTS}
        began, done = time.monotonic(), 0
        while time.monotonic() - began < seconds or done < 3:
            for variant in VARIANTS[:: 1 if done % 2 else -1]:
                taken[variant].append(_turn(task, variant, done))
            done += 1
        Proxy.unproxy(task.model)
    added = {
        variant: statistics.median(map(int.__sub__, taken[variant], taken[None])) / 1e6
        for variant in VARIANTS
        if variant is not None
    }
    return {("", ""): statistics.median(taken[None]) / 1e6, **added}


def _turn(task: Task, variant: tuple[str, str] | None, number: int) -> int:
    """The nanoseconds of CPU time of a step of a turn, with the writing of what it recorded."""
    tracer = Proxy._installed.get()  # noqa: SLF001  No program needs to be observed for some of its steps.
    if variant is None:
        tracer.remove_interceptors()
    else:
        Proxy.Proxy(task.model, True, log_level=variant[0], statistics=variant[1])
        tracer.install_interceptors()
    _train(task, number)
    _write()
    began = time.process_time_ns()
    for _ in range(_MEASURED):
        _train(task, number)
    _write()  # Once, since the writer's thread ends with it.
    return (time.process_time_ns() - began) // _MEASURED


def _train(task: Task, number: int) -> None:
    task.optimizer.zero_grad()
    task.loss(task.model(task.inputs[number % BATCHES]), task.targets[number % BATCHES]).backward()
    if task.clip is not None:
        torch.nn.utils.clip_grad_norm_(task.model.parameters(), task.clip)
    task.optimizer.step()


def _write() -> None:
    """Wait until the writer has nothing left."""
    for channel in list(Proxy._installed.get().channels.values()):  # noqa: SLF001  `flush` also looks at the model.
        channel.flush()


def main() -> int:
    """Print the table; the exit code is 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workload", choices=list(WORKLOADS), action="append", help="only this one (repeatable)")
    parser.add_argument("--seconds", type=float, default=40.0, help="for each workload (default: 40)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if not extents.is_compiled():
        print("measured without the library; to compile it: python scripts/compile_one_pass.py", file=sys.stderr)
    print("| workload | plain | INFO adds | with outputs | ratio | DEBUG adds | with all | ratio |\n|" + " --- |" * 8)
    are_met = True
    for name in args.workload or WORKLOADS:
        added = measure(name, args.seconds)
        columns = [name, f"{added['', '']:.2f} ms"]
        for (level, choice), bound in BESIDE.items():
            ratio = added[level, choice] / added[level, "state"]
            are_met &= ratio <= bound
            columns += [f"{added[level, 'state']:.2f} ms", f"{added[level, choice]:.2f} ms", f"{ratio:.2f}"]
        print(f"| {' | '.join(columns)} |", flush=True)
    return 0 if are_met else 1


if __name__ == "__main__":
    sys.exit(main())
