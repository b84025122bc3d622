"""Lets workers train in turn, a block of steps each, in another order every round.

So whatever else the machine does hits all variants alike; and all of it is done in several launches, since where a
process happens to lie in memory is good for some per cent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from overhead.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

WARMUP_STEPS = 3

SLOWEST = 3.0
"""A block of a slow variant has fewer steps than plain's, so that it lasts no longer than this many of plain's."""

_ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """A process that trains one variant of a workload when told to."""

    def __init__(self, workload: str, variant: str, folder: Path, device: str) -> None:
        self.variant = variant
        self.done = 0
        folder.mkdir()
        paths = [str(_ROOT / "benchmarks"), str(_ROOT / "runtime"), os.environ.get("PYTHONPATH", "")]
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
        environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # Else matrix products on CUDA differ from run to run.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "overhead.worker", workload, variant, str(folder), device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def train(self, steps: int) -> Answer:
        """Run a block of steps.

        Raises:
            SystemExit: if the worker ended; its own message is on stderr.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        helpers_before = _cpu_of_helpers(process.pid)
        try:
            process.stdin.write(f"{steps}\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # The worker ended, and its answer is missing too.
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"the worker for {self.variant!r} ended with exit code {process.wait()}; see above")
        self.done += steps
        answer = Answer(**json.loads(line))
        return replace(answer, helpers_cpu=max(0.0, _cpu_of_helpers(process.pid) - helpers_before))

    def close(self) -> None:
        """Let the worker end, and wait for it."""
        self._process.kill()
        self._process.communicate()


class Workers:
    """Workers for one workload, each with a folder of its own; all are closed at the end of the `with` block."""

    def __init__(self, workload: str, variants: Sequence[str], device: str = "cpu") -> None:
        self._workload = workload
        self._device = device
        self._variants = variants
        self._folder = tempfile.TemporaryDirectory(prefix="overhead-")
        self.workers: list[Worker] = []

    def __enter__(self) -> list[Worker]:
        try:
            for variant in self._variants:
                folder = Path(self._folder.name) / f"{len(self.workers)}-{variant}"
                self.workers.append(Worker(self._workload, variant, folder, self._device))
        except BaseException:
            self._close()
            raise
        return self.workers

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        for worker in self.workers:
            worker.close()
        self._folder.cleanup()


@dataclass
class Launch:
    """What the workers of one launch answered, by variant: after the warm-up, and after each round.

    `are_weights_equal` says whether every answer's weights were to the bit those of a plain run that nobody timed,
    after as many steps.
    """

    warm: dict[str, Answer] = field(default_factory=dict)
    rounds: list[dict[str, Answer]] = field(default_factory=list)
    are_weights_equal: dict[str, bool] = field(default_factory=dict)


def launch(workload: str, variants: Sequence[str], rounds: int, steps: int, device: str = "cpu") -> Launch:
    """Start fresh processes and let them train in turn.

    Args:
        workload: a name that `overhead.workloads` knows.
        variants: names that `overhead.variants` knows, "plain" among them.
        rounds: how many blocks each worker trains.
        steps: how many steps plain's blocks have.
        device: what they train on.
    """
    result = Launch(are_weights_equal=dict.fromkeys(variants, True))
    # Weights are compared at every step at which some block ends: each variant's blocks have their own length.
    with Workers(workload, ["plain"], device) as [reference]:
        expected = {step: reference.train(1).weights for step in range(1, WARMUP_STEPS + rounds * steps + 1)}
    with Workers(workload, variants, device) as workers:
        for worker in workers:
            result.warm[worker.variant] = answer = worker.train(WARMUP_STEPS)
            result.are_weights_equal[worker.variant] &= answer.weights == expected[worker.done]
        plain = result.warm["plain"].wall_per_step
        lengths = {
            name: max(1, min(steps, round(steps * SLOWEST * plain / answer.wall_per_step)))
            for name, answer in result.warm.items()
        }
        for number in range(rounds):
            first = number % len(workers)
            answers: dict[str, Answer] = {}
            for worker in workers[first:] + workers[:first]:
                answers[worker.variant] = answer = worker.train(lengths[worker.variant])
                result.are_weights_equal[worker.variant] &= answer.weights == expected[worker.done]
            result.rounds.append(answers)
    return result


def _cpu_of_helpers(pid: int) -> float:
    """Seconds of CPU time of all processes that process `pid` has started; 0 where there is no /proc."""
    children: dict[int, list[tuple[int, float]]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # It has ended meanwhile.
            continue
        ticks = int(fields[11]) + int(fields[12])
        children.setdefault(int(fields[1]), []).append((int(path.parent.name), ticks / os.sysconf("SC_CLK_TCK")))
    total, waiting = 0.0, [pid]
    while waiting:
        for child, seconds in children.get(waiting.pop(), ()):
            total += seconds
            waiting.append(child)
    return total
