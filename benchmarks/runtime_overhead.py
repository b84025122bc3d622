"""Measures what tracing costs a training step: time, memory, and size of the trace.

Each variant (plain, plain once more as the control, traced at INFO, traced at DEBUG; with `--peers` other tools, with
`--floor` what bounds the cost from below) trains in a process of its own, and these take turns. What is reported is
the median over rounds of the CPU time of a step / plain's of the same round. Clocks run until what was recorded is
with the operating system, so that the writer's work is counted and not done while another variant is measured.

    python benchmarks/runtime_overhead.py --quick
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from overhead.interleaved import launch
from overhead.measurement import Measurement, evaluate
from overhead.tables import render
from overhead.variants import FLOOR, OURS, PEERS, VARIANTS
from overhead.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADER = """\
{machine}, {cores} cores, one thread, Python {python}, training on {device}:
ratios to plain, medians over rounds; the targets are for CPU time, the clock that a shared machine disturbs least;
control is plain once more, and shows the noise
"""


def measure(
    workload: str, variants: Sequence[str], launches: int, rounds: int, steps: int, device: str
) -> list[Measurement]:
    """Train all variants of `workload` in turn, in fresh processes for each launch; one measurement per variant."""
    seen = [launch(workload, variants, rounds, steps, device) for _ in range(launches)]
    return [evaluate(workload, variant, seen) for variant in variants]


def missing_packages(variants: Sequence[str]) -> list[str]:
    """The packages that these variants need and that are not installed."""
    needed = {VARIANTS[variant].package for variant in variants} - {""}
    return sorted(package for package in needed if importlib.util.find_spec(package) is None)


def main() -> int:
    """Run the benchmark; the exit code is 1 if a traced run's weights differ from the plain run's."""
    args = _parse()
    variants = list(OURS) + (list(PEERS) if args.peers else []) + (list(FLOOR) if args.floor else [])
    if args.variant:
        variants = ["plain", *(name for name in args.variant if name != "plain")]
    missing = missing_packages(variants)
    if missing:
        print(f"not installed, and so left out: {', '.join(missing)}; benchmarks/README.md says how", file=sys.stderr)
        variants = [name for name in variants if VARIANTS[name].package not in missing]

    launches = args.launches or (1 if args.quick or args.peers else 3)
    rounds = args.rounds or (4 if args.quick else 6 if args.peers else 8)
    everything: list[Measurement] = []
    if args.format != "json":
        print(
            HEADER.format(
                machine=platform.machine(), cores=os.cpu_count(), python=platform.python_version(), device=args.device
            )
        )
        for name in variants:
            print(f"{'- ' if args.format == 'markdown' else ''}{name}: {VARIANTS[name].what}")
        print(flush=True)
    for workload in args.workload or WORKLOADS:
        steps = args.steps_per_round or WORKLOADS[workload].steps_per_round
        measurements = measure(workload, variants, launches, rounds, steps, args.device)
        everything += measurements
        if args.format != "json":
            print(render(measurements, args.format), flush=True)
    if args.format == "json":
        print(json.dumps([asdict(one) for one in everything], indent=2))
    return 0 if all(one.weights_equal for one in everything if one.variant in OURS) else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="what tracing costs a training step")
    parser.add_argument("--workload", choices=list(WORKLOADS), action="append", help="only this one (repeatable)")
    parser.add_argument("--variant", choices=list(VARIANTS), action="append", help="only plain and this (repeatable)")
    parser.add_argument("--peers", action="store_true", help="other tools too, those that are installed")
    parser.add_argument("--floor", action="store_true", help="also what bounds the cost from below: empty hooks, ...")
    parser.add_argument("--launches", type=int, help="times to start fresh processes (default: 3; quick and peers: 1)")
    parser.add_argument("--rounds", type=int, help="rounds per launch (default: 8; with --peers 6, with --quick 4)")
    parser.add_argument("--steps-per-round", type=int, help="steps per block (default: by workload)")
    parser.add_argument("--device", default="cpu", help="what to train on, such as cuda (default: cpu)")
    parser.add_argument("--format", choices=["text", "json", "markdown"], default="text")
    parser.add_argument("--quick", action="store_true", help="a glance, not for publishing")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
