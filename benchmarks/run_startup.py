"""How much later a program starts under `instrument run` than under `python`: in its first run, and in the next one.

    python benchmarks/run_startup.py examples/mnist.py

The first run analyses the program, the next one finds what the first has made of it. Both know what installed packages
contain. The script ends before its first statement, so that only what comes before it counts. The three are run in
turn, and their medians compared, by the clock and by CPU time, which other programs on the machine change less.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

_END = "import os; os._exit(0)\n"


class Took(NamedTuple):
    """Seconds."""

    wall: float
    cpu: float


def measure(command: list[str]) -> Took:
    """Run a command and return how long it took."""
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took = time.perf_counter() - began
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Took(took, used)


def median(runs: list[Took]) -> Took:
    return Took(statistics.median(run.wall for run in runs), statistics.median(run.cpu for run in runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", type=Path)
    parser.add_argument("--runs", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / arguments.script.name
        text = arguments.script.read_text()
        future = "from __future__ import annotations\n"
        script.write_text((future if future in text else "") + _END + text.replace(future, ""))
        cache = Path(folder) / "cache"
        os.environ["INSTRUMENT_CACHE_DIR"] = str(cache)
        plain = [sys.executable, str(script)]
        traced = [sys.executable, "-m", "instrumentor", "run", "--quiet", str(script)]
        for command in (plain, traced):
            measure(command)  # Fills the cache of facts about installed packages.
        found: dict[str, list[Took]] = {"python": [], "first run": [], "next run": []}
        for _ in range(arguments.runs):
            found["python"].append(measure(plain))
            shutil.rmtree(cache / "results")
            found["first run"].append(measure(traced))
            found["next run"].append(measure(traced))
    medians = {name: median(runs) for name, runs in found.items()}
    for name, took in medians.items():
        later = Took(*(a - b for a, b in zip(took, medians["python"], strict=True)))
        print(f"{name:10} {took.wall:7.3f} s  {took.cpu:7.3f} s of CPU time, {later.cpu:+.3f} s")


if __name__ == "__main__":
    main()
