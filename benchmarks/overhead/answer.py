"""What a worker says after each block of steps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """A block of `steps` steps. `records` and `size` (bytes) are those of the trace so far.

    `wall` and `cpu` are seconds, until what was recorded had left the process; `cpu` is that of all its threads,
    `other_threads_cpu` that of all but the one that trains. `fastest` is the time that one step in fifty stays below:
    what a step takes in moments in which nothing else runs, on the thread that trains.
    `weights` is a hash of all parameters and buffers. `peak_kb` is the highest resident size of the process so far,
    `resident` (bytes) the present one. `helpers_cpu` is the CPU time (seconds) of the processes that it has started.
    """

    steps: int
    wall: float
    cpu: float
    other_threads_cpu: float
    fastest: float
    records: int
    size: int
    weights: str
    peak_kb: int
    resident: int
    helpers_cpu: float = 0.0

    @property
    def cpu_per_step(self) -> float:
        """Seconds of CPU time a step, helpers included."""
        return (self.cpu + self.helpers_cpu) / self.steps

    @property
    def wall_per_step(self) -> float:
        """Seconds a step."""
        return self.wall / self.steps
