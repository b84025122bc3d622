"""Measures whether memory stays flat while a traced program trains: resident bytes over many steps, and their slope.

A small model trains plain, at INFO and at DEBUG, each in a process of its own. The resident size is read after each
block of steps; the slope is that of the least-squares line through the readings after the first quarter, in which the
allocator and the caches settle. Its error is the standard error of that fit.

    python benchmarks/runtime_memory.py --steps 10000
"""

from __future__ import annotations

import argparse
import sys

from overhead.interleaved import Workers
from overhead.line import fit_line
from overhead.tables import titled_table

VARIANTS = ("plain", "INFO", "DEBUG")
WORKLOAD = "modules:10"
READINGS = 100


def main() -> int:
    """Run the benchmark; the exit code is 1 if a traced run's memory grows and plain's does not."""
    parser = argparse.ArgumentParser(description="does memory stay flat while tracing?")
    parser.add_argument("--steps", type=int, default=10_000, help="steps of training (default: 10000)")
    parser.add_argument("--limit", type=float, default=64.0, help="bytes a step that count as growth (default: 64)")
    parser.add_argument("--format", choices=["text", "markdown"], default="text")
    args = parser.parse_args()
    block = max(1, args.steps // READINGS)
    rows = [["variant", "resident at the end", "slope", "within"]]
    grows = False
    with Workers(WORKLOAD, VARIANTS) as workers:
        readings: dict[str, list[int]] = {worker.variant: [] for worker in workers}
        for _ in range(args.steps // block):
            for worker in workers:
                readings[worker.variant].append(worker.train(block).resident)
    for variant, resident in readings.items():
        settled = resident[len(resident) // 4 :]
        line = fit_line([block * i for i in range(len(settled))], settled)
        is_flat = line.slope - 2 * line.slope_error <= args.limit
        grows |= variant != "plain" and not is_flat
        rows.append(
            [
                variant,
                f"{resident[-1] / 2**20:.1f} MiB",
                f"{line.slope:+.1f} +- {line.slope_error:.1f} bytes/step",
                f"{args.limit:g}: yes" if is_flat else f"{args.limit:g}: NO",
            ]
        )
    note = f"{args.steps} steps; a reading every {block}, those of the first quarter left out"
    print(titled_table(f"resident memory, {WORKLOAD}", note, rows, args.format))
    return int(grows)


if __name__ == "__main__":
    sys.exit(main())
