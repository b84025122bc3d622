"""Measures how the cost of tracing grows with the size of a model: is it linear?

For each size a model that does next to nothing trains plain and traced, in processes that take turns; the cost is what
a traced step takes beyond a plain one, in CPU time. Printed is the cost of each size, and the power law fitted to them
(a line through the logarithms): exponent 1 is linear. The cost of the smallest sizes is mostly what a step costs
whatever its size, so the exponent over the larger half is printed too.

    python benchmarks/runtime_scaling.py
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys

from overhead.interleaved import Workers
from overhead.line import Line, fit_line
from overhead.tables import titled_table
from overhead.workloads import CHAINS

SIZES = {
    "modules": (10, 30, 100, 300, 1000, 3000, 10_000),
    "tensors": (10, 30, 100, 300, 1000, 3000, 10_000),
    "elements": (10, 30, 100, 300, 1000, 3000, 10_000),
    "calls": (10, 30, 100, 300, 1000, 3000, 10_000),
    "operations": (10, 30, 100, 300, 1000, 3000, 10_000),
}
LEVELS = {"modules": "INFO", "tensors": "INFO", "elements": "INFO", "calls": "INFO", "operations": "DEBUG"}

_WORK = 3000
"""Blocks have so many steps that this is about their size times their steps."""


def costs(kind: str, size: int, level: str, rounds: int) -> tuple[float, float]:
    """The extra cost of a traced step over plain, in microseconds of CPU time, and its number of records."""
    steps = max(2, _WORK // size)
    with Workers(f"{kind}:{size}", ["plain", level]) as [plain, traced]:
        plain.train(steps)
        before = after = traced.train(steps)
        differences = []
        for _ in range(rounds):
            less = plain.train(steps)
            after = traced.train(steps)
            differences.append(after.cpu_per_step - less.cpu_per_step)
    records = (after.records - before.records) / (rounds * steps)
    return 1e6 * statistics.median(differences), records


def power_law(sizes: list[int], values: list[float]) -> Line:
    """The line through the logarithms of both: its slope is the exponent."""
    return fit_line([math.log(size) for size in sizes], [math.log(value) for value in values])


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="how does the cost of tracing grow with the model?")
    parser.add_argument("--kind", choices=list(SIZES), action="append", help="only this one (repeatable)")
    parser.add_argument("--largest", type=int, default=10_000, help="leave out larger sizes (default: 10000)")
    parser.add_argument("--rounds", type=int, default=7, help="blocks per size (default: 7)")
    parser.add_argument("--format", choices=["text", "markdown"], default="text")
    args = parser.parse_args()
    for kind in args.kind or SIZES:
        level = LEVELS[kind]
        sizes = [size for size in SIZES[kind] if size <= args.largest]
        rows = [["size", "cost/step", "cost/size", "records/step", "cost/record"]]
        found = []
        for size in sizes:
            cost, records = costs(kind, size, level, args.rounds)
            found.append(cost)
            per_record = f"{cost / records:.2f} us" if records else "-"
            rows.append([str(size), f"{cost:.0f} us", f"{cost / size:.2f} us", f"{records:.0f}", per_record])
        title = f"{kind} at {level}: {CHAINS[kind].title}"
        print(titled_table(title, _fits(sizes, found), rows, args.format), flush=True)
    return 0


def _fits(sizes: list[int], found: list[float]) -> str:
    measured = [(size, cost) for size, cost in zip(sizes, found, strict=True) if cost > 0]
    parts = []
    for words, points in (("all sizes", measured), ("the larger half", measured[-(len(measured) // 2 + 1) :])):
        if len(points) >= 3:
            line = power_law([size for size, _ in points], [cost for _, cost in points])
            parts.append(f"{words}: exponent {line.slope:.3f} +- {line.slope_error:.3f}, R2 {line.r_squared:.4f}")
    return "; ".join(parts) or "too few sizes for a fit"


if __name__ == "__main__":
    sys.exit(main())
