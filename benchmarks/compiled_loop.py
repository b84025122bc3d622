"""Measures what tracing costs a program that has `torch.compile` compile its whole training loop.

Compiling included: forward, backward and the optimizer's step are in the function that is compiled, so that its graph
breaks. Each variant runs in a fresh process, the variants take turns, and what is printed is the median over rounds of
the CPU time from the first model on / plain's of the same round; the control is plain once more, and shows the noise.
The exit code is 1 if the weights differ from plain's, or the graphs.

    python benchmarks/compiled_loop.py
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import Any

TARGET = 1.2
VARIANTS = ("plain", "control", "INFO", "DEBUG")


def run_loop(variant: str, steps: int) -> dict[str, Any]:
    """The measurements of one process: its CPU time in seconds, its results and compile statistics."""
    import torch
    from torch._dynamo.utils import counters  # Loaded by all variants, and by none while the clock runs.

    import proxy_wrapper.proxy as Proxy

    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
        if variant in ("INFO", "DEBUG"):
            Proxy.Proxy(model, recurse=True, name="model", logdir=folder, log_level=variant)
        optimizer = torch.optim.Adam(model.parameters())
        batch = torch.randn(32, 64)

        def train() -> None:
            for _ in range(steps):
                optimizer.zero_grad()
                model(batch).pow(2).mean().backward()
                optimizer.step()

        torch.compile(train, backend="eager")()
        Proxy.unproxy(model)
        spent = time.process_time() - began
    weights = [value.item().hex() for value in (each.double().sum() for each in model.state_dict().values())]
    return {"spent": spent, "same": [weights, dict(counters["stats"]), sum(counters["graph_break"].values())]}


def launch(variant: str, steps: int) -> dict[str, Any]:
    """The measurements of a fresh process of `variant`."""
    command = [sys.executable, __file__, "--variant", variant, "--steps", str(steps)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each variant runs")
    parser.add_argument("--steps", type=int, default=200, help="training steps in the loop")
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.variant:
        print(json.dumps(run_loop(args.variant, args.steps)))
        return 0
    ratios: dict[str, list[float]] = {variant: [] for variant in VARIANTS[1:]}
    is_same = True
    for turn in range(args.rounds):
        order = VARIANTS[turn % len(VARIANTS) :] + VARIANTS[: turn % len(VARIANTS)]
        measured = {variant: launch(variant, args.steps) for variant in order}
        is_same &= all(each["same"] == measured["plain"]["same"] for each in measured.values())
        for variant, found in ratios.items():
            found.append(measured[variant]["spent"] / measured["plain"]["spent"])
    print(f"a compiled training loop of {args.steps} steps, CPU time / plain's, {args.rounds} rounds; target {TARGET}")
    for variant, found in ratios.items():
        print(f"  {variant:8} {median(found):.2f}  ({min(found):.2f} to {max(found):.2f})")
    print("weights and graphs: " + ("the same" if is_same else "DIFFERENT"))
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
