"""How much later a program starts under `instrument run` than under `python`, and how much of that is the analysis.

    python benchmarks/run_startup.py examples/mnist.py

The script ends before its first statement, so that only what comes before it counts. The three are run in turn, and
their medians compared, by the clock and by CPU time, which other programs on the machine change less.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

_END = "import os; os._exit(0)\n"
_ANALYSIS = """
import sys
from instrumentor.configuration import Section
from instrumentor.running.program import Choices, find_script, prepare
prepare(find_script(sys.argv[1]), Choices(Section()))
"""


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
        commands = {
            "python": [sys.executable, str(script)],
            "instrument run": [sys.executable, "-m", "instrumentor", "run", "--quiet", str(script)],
            "analysis alone": [sys.executable, "-c", _ANALYSIS, str(script)],
        }
        found: dict[str, list[Took]] = {name: [] for name in commands}
        for command in commands.values():
            measure(command)  # Fills the cache of facts about installed packages.
        for _ in range(arguments.runs):
            for name, command in commands.items():
                found[name].append(measure(command))
    medians = {name: median(runs) for name, runs in found.items()}
    for name, took in medians.items():
        print(f"{name:15} {took.wall:7.3f} s   {took.cpu:7.3f} s of CPU time")
    python, run, analysis = medians.values()
    late = Took(*(a - b for a, b in zip(run, python, strict=True)))
    rest = Took(*(a - (b - c) for a, b, c in zip(late, analysis, python, strict=True)))
    print(f"{'later':15} {late.wall:7.3f} s   {late.cpu:7.3f} s of CPU time")
    print(f"{'less analysis':15} {rest.wall:7.3f} s   {rest.cpu:7.3f} s of CPU time")


if __name__ == "__main__":
    main()
