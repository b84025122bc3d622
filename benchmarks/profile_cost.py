"""Measures what `Proxy.trace(model, profile=True)` costs, beside torch's `FlopCounterMode` alone.

A forward and a backward pass, in process CPU time, on one thread. Plain, counted and profiled blocks take turns in one
process, and the median of the ratios of neighbouring blocks counts; `plain/plain` says what the machine adds.

    python benchmarks/profile_cost.py

The networks are those of `views.py`.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

import proxy_wrapper.proxy as Proxy
from overhead.tables import titled_table
from views import NETWORKS, cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

TARGET: Final = 1.0
"""How many times what the counter alone takes a profile may take."""


def step(model: nn.Module, x: torch.Tensor) -> None:
    """A forward and a backward pass."""
    outputs = [each for each in tree_leaves(model(x)) if isinstance(each, torch.Tensor) and each.requires_grad]
    outputs[0].sum().backward()


def counted(model: nn.Module, x: torch.Tensor) -> None:
    with FlopCounterMode(display=False):
        step(model, x)


def profiled(model: nn.Module, x: torch.Tensor) -> None:
    with Proxy.trace(model, profile=True):
        step(model, x)


def ratios(calls: list[Callable[[], Any]], rounds: int, times: int) -> list[float]:
    """For each call but the first the median, over the rounds, of its CPU time over that of the first."""
    for call in calls:
        call()
    gc.collect()
    found = [[cpu_seconds(call, times) for call in calls] for _ in range(rounds)]
    return [statistics.median(row[place] / row[0] for row in found) for place in range(1, len(calls))]


def measure(name: str, rounds: int) -> tuple[list[str], bool]:
    """The row of a network, and whether it meets the target."""
    torch.manual_seed(0)
    network = NETWORKS[name]
    model, x = network.make().train(), network.inputs()
    step(model, x)
    once = cpu_seconds(lambda: step(model, x), 5) / 5
    plain = lambda: step(model, x)  # noqa: E731
    calls = [plain, plain, lambda: counted(model, x), lambda: profiled(model, x)]
    control, counter, profile = ratios(calls, rounds, max(3, int(0.05 / once)))
    row = [name, f"{once * 1e3:.2f}", *(f"{each:.2f}" for each in (control, counter, profile, profile / counter))]
    return row, profile / counter <= TARGET


def main() -> int:
    """Run the benchmark; the exit code is 1 if the target is missed."""
    parser = argparse.ArgumentParser(description="what does a profile cost?")
    parser.add_argument("--rounds", type=int, default=21, help="rounds of blocks for each figure (default: 21)")
    parser.add_argument("--network", choices=NETWORKS, action="append", help="only these networks")
    parser.add_argument("--format", choices=("text", "markdown"), default="text", help="of the table")
    options = parser.parse_args()
    torch.set_num_threads(1)
    headings = ["network", "plain, ms", "plain/plain", "FlopCounterMode/plain", "profile/plain", "profile/counter"]
    rows, keeps = [], True
    for name in options.network or list(NETWORKS):
        try:
            row, is_kept = measure(name, options.rounds)
        except ImportError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        rows.append(row)
        keeps &= is_kept
    note = (
        f"forward and backward pass, CPU time; medians of {options.rounds} rounds of blocks that take turns, one thread"
    )
    print(titled_table("profiles", note, [headings, *rows], options.format))
    return 0 if keeps else 1


if __name__ == "__main__":
    sys.exit(main())
