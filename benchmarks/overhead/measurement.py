"""Turns what the workers answered into one measurement for each variant."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overhead.workloads import MEMORY_TARGET, target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from overhead.answer import Answer
    from overhead.interleaved import Launch


@dataclass(frozen=True)
class Measurement:
    """One variant of one workload, beside plain.

    Ratios are to plain's block of the same round, a step each; medians over all rounds of all launches, with quartiles
    (`cpu_low`, `cpu_high`) and extremes (`cpu_least`, `cpu_most`) for CPU time. `quiet_ratio` is that of the fastest
    steps of all rounds, which nothing else disturbed: on the thread that trains, without the writer's. `wall_ms` and
    `cpu_ms` are for one step. `us_per_record` is the CPU time that each record costs beyond plain. `peak_memory_mb` is
    the highest resident size of the process. `weights_equal` says whether all weights were, to the bit and after each
    block, those of a plain run.
    """

    workload: str
    variant: str
    launches: int
    rounds: int
    steps: int
    wall_ms: float
    cpu_ms: float
    wall_ratio: float
    quiet_ratio: float
    cpu_ratio: float
    cpu_low: float
    cpu_high: float
    cpu_least: float
    cpu_most: float
    target: float | None
    records_per_step: float
    bytes_per_step: float
    us_per_record: float | None
    peak_memory_mb: float
    memory_ratio: float
    weights_equal: bool

    @property
    def meets_target(self) -> bool:
        """Whether the ratio of CPU times is within the target, if there is one."""
        return self.target is None or round(self.cpu_ratio, 3) <= self.target

    @property
    def meets_memory_target(self) -> bool:
        """Whether the peak memory is within its target, which holds for our own levels."""
        return self.target is None or round(self.memory_ratio, 3) <= MEMORY_TARGET


def evaluate(workload: str, variant: str, launches: Sequence[Launch]) -> Measurement:
    """The measurement of `variant` from all launches."""
    blocks = [block for launch in launches for block in launch.rounds]
    steps = sum(block[variant].steps for block in blocks)

    def ratios(cost: Callable[[Answer], float]) -> list[float]:
        return [cost(block[variant]) / cost(block["plain"]) for block in blocks]

    def growth(what: Callable[[Answer], int]) -> float:
        return sum(what(each.rounds[-1][variant]) - what(each.warm[variant]) for each in launches) / steps

    def fastest(of: str) -> float:
        return min(block[of].fastest for block in blocks)

    def peak_kb(of: str) -> float:
        return statistics.median(float(launch.rounds[-1][of].peak_kb) for launch in launches)

    cpu = sorted(ratios(lambda answer: answer.cpu_per_step))
    low, middle, high = statistics.quantiles(cpu, n=4) if len(cpu) > 1 else cpu * 3
    more = statistics.median(block[variant].cpu_per_step - block["plain"].cpu_per_step for block in blocks)
    records = growth(lambda answer: answer.records)
    plain_ms = 1e3 * statistics.median(block["plain"].cpu_per_step for block in blocks)
    return Measurement(
        workload=workload,
        variant=variant,
        launches=len(launches),
        rounds=len(blocks),
        steps=steps,
        wall_ms=1e3 * statistics.median(block[variant].wall_per_step for block in blocks),
        cpu_ms=1e3 * statistics.median(block[variant].cpu_per_step for block in blocks),
        wall_ratio=statistics.median(ratios(lambda answer: answer.wall_per_step)),
        quiet_ratio=fastest(variant) / fastest("plain"),
        cpu_ratio=middle,
        cpu_low=low,
        cpu_high=high,
        cpu_least=cpu[0],
        cpu_most=cpu[-1],
        target=target_of(variant, plain_ms),
        records_per_step=records,
        bytes_per_step=growth(lambda answer: answer.size),
        us_per_record=1e6 * more / records if records else None,
        peak_memory_mb=peak_kb(variant) / 1024,
        memory_ratio=peak_kb(variant) / peak_kb("plain"),
        weights_equal=all(launch.are_weights_equal[variant] for launch in launches),
    )
