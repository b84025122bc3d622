"""Measures how large traces are: bytes per record as JSON Lines and after `proxy-trace export` to Parquet.

Instruments examples as a user would, runs them at INFO and at DEBUG in fresh processes, and exports what they leave.

    python benchmarks/trace_size.py
    python benchmarks/trace_size.py --format markdown
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from proxy_trace.export.parquet import export_parquet
from proxy_trace.open_trace import open_trace
from proxy_trace.terminal.table import format_table

ROOT: Final = Path(__file__).parents[1]
EXAMPLES: Final = {"mnist": ["--epochs", "1"], "char_transformer": [], "dcgan": []}
LEVELS: Final = ("INFO", "DEBUG")
TARGET: Final = 60.0
"""Bytes per record in Parquet, at most."""

COLUMNS: Final = ("example", "level", "records", "records/step", "JSON Lines", "Parquet", "target", "smaller by")


class Size(NamedTuple):
    """The sizes of a run's output, in bytes."""

    example: str
    level: str
    records: int
    steps: int
    json_lines: int
    parquet: int

    @property
    def meets_target(self) -> bool:
        """Whether the Parquet dataset is small enough."""
        return self.parquet / self.records <= TARGET

    def cells(self) -> list[str]:
        """The row of the table."""
        return [
            self.example,
            self.level,
            f"{self.records:,}",
            f"{self.records / max(1, self.steps):,.1f}",
            f"{self.json_lines / self.records:.1f}",
            f"{self.parquet / self.records:.1f}",
            f"{TARGET:.0f} {'met' if self.meets_target else 'MISSED'}",
            f"{self.json_lines / self.parquet:.1f}",
        ]


def measure(example: str, arguments: list[str], level: str, folder: Path) -> Size:
    """Instrument and run an example with the trace in `folder`, and export it."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    script = folder / f"instrumented_{example}.py"
    instrument = [sys.executable, "-m", "instrumentor", str(ROOT / "examples" / f"{example}.py"), "-o", str(script)]
    options = ["--logdir", str(folder / "trace"), "--log-level", level]
    for command in ([*instrument, *options], [sys.executable, str(script), *arguments]):
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    trace = open_trace(folder / "trace")
    done = export_parquet(trace, folder / "dataset")
    steps = trace.summary().steps
    return Size(example, level, done.records, steps, sum(file.size_bytes() for file in trace.files), done.size_bytes)


def main() -> int:
    """Print the table; the exit code is 1 if a target is missed."""
    parser = argparse.ArgumentParser(description="how large traces are", formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--example", action="append", choices=EXAMPLES, help="only this one (repeatable)")
    parser.add_argument("--format", choices=["text", "markdown"], default="text")
    args = parser.parse_args()
    sizes = []
    for example in args.example or EXAMPLES:
        for level in LEVELS:
            with tempfile.TemporaryDirectory() as folder:
                sizes.append(measure(example, EXAMPLES[example], level, Path(folder)))
    print("bytes per record; 'smaller by' is the ratio of the sizes\n")
    if args.format == "markdown":
        print(
            "\n".join(
                f"| {' | '.join(cells)} |" for cells in (COLUMNS, ["---"] * len(COLUMNS), *(s.cells() for s in sizes))
            )
        )
    else:
        print("\n".join(format_table(COLUMNS, [size.cells() for size in sizes], "llrrrrlr")))
    return 0 if all(size.meets_target for size in sizes) else 1


if __name__ == "__main__":
    sys.exit(main())
