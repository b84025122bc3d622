"""Runs the tests on each supported Python and torch, each pair in an environment of its own, and prints a table.

    scripts/matrix.py                          every pair
    scripts/matrix.py --only 3.12              those with this Python, or this torch
    scripts/matrix.py --only 3.12,2.13.0       the one with both
    scripts/matrix.py -- tests/examples -x     with more arguments for pytest
    scripts/matrix.py --json                   the list of pairs, as a workflow of GitHub Actions takes it

Environments, logs and results are kept in build/matrix; an environment that is there is used again. Of a Python that is
not on the machine, and of a torch that cannot be had for it, the table says so: no failure, unless --strict is given.
It needs nothing but Python itself.

Exit codes: 0 every environment that could be made passed, 1 one failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "build" / "matrix"

PYTHONS: Final = ("3.10", "3.11", "3.12", "3.13", "3.14")
"""Those that pyproject.toml has classifiers for."""

TORCH: Final = "2.13.0"
"""The version that `make_environment.sh` installs, and every change is tested with."""

OLDEST_TORCH: Final = "2.6.0"
"""The first that is supported: that of the extra `torch` in pyproject.toml."""

NEWEST_TORCH: Final = "2.15.0"
"""The last one released."""

NO_TORCH: Final = 3
"""The exit code of `make_environment.sh` where that torch cannot be had for that Python."""

_MISSING: Final = ("no interpreter", "no torch for it")
_IS_USABLE: Final = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"


class Pair(NamedTuple):
    """What an environment is made of."""

    python: str
    torch: str

    @property
    def name(self) -> str:
        """The name of the environment's folder, and of the files beside it."""
        return f"python{self.python}-torch{self.torch}"


PAIRS: Final = (
    Pair(PYTHONS[0], OLDEST_TORCH),
    *(Pair(python, TORCH) for python in PYTHONS),
    Pair("3.11", NEWEST_TORCH),
    Pair(PYTHONS[-1], NEWEST_TORCH),
)
"""The whole table. Each Python with the usual torch; the oldest and the newest torch with the Python of their time."""


@dataclass(frozen=True)
class Counts:
    """How many tests of a run ended in which way."""

    passed: int
    failed: int
    skipped: int

    @classmethod
    def from_junit(cls, text: str) -> Counts:
        """Those of a report in JUnit's format, as pytest writes it; errors count as failures.

        Raises:
            ValueError: if it is no such report.
        """
        try:
            suites = ET.fromstring(text).iter("testsuite")
            numbers = [
                [int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")] for suite in suites
            ]
        except (ET.ParseError, ValueError) as error:
            raise ValueError(f"no report of tests: {error}") from error
        tests, failures, errors, skipped = (sum(column) for column in zip(*numbers, strict=True))
        return cls(tests - failures - errors - skipped, failures + errors, skipped)


@dataclass(frozen=True)
class Row:
    """What became of a pair: `result` is "passed", "failed", or why nothing ran."""

    pair: Pair
    result: str
    counts: Counts | None = None
    seconds: float = 0.0

    @property
    def is_missing(self) -> bool:
        """Whether the machine lacks what the environment is made of."""
        return self.result in _MISSING

    @property
    def has_failed(self) -> bool:
        """Whether it could be made, and something went wrong."""
        return self.result != "passed" and not self.is_missing


def table(rows: Sequence[Row]) -> str:
    """The rows as a table in Markdown, in aligned columns."""
    cells = [["Python", "torch", "result", "passed", "failed", "skipped", "time"]]
    for row in rows:
        counts = ["", "", ""]
        if row.counts is not None:
            counts = [f"{number:,}" for number in (row.counts.passed, row.counts.failed, row.counts.skipped)]
        minutes, seconds = divmod(round(row.seconds), 60)
        cells.append([*row.pair, row.result, *counts, f"{minutes}:{seconds:02}" if row.counts is not None else ""])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    )


def selected(wanted: Sequence[str]) -> list[Pair]:
    """The pairs that each of `wanted` names: "3.12", "2.13.0", or both with a comma between; all if nothing is wanted.

    Raises:
        ValueError: if one names no pair.
    """
    if not wanted:
        return list(PAIRS)
    found: dict[Pair, None] = {}
    for words in wanted:
        named = [pair for pair in PAIRS if set(words.split(",")) <= set(pair)]
        if not named:
            raise ValueError(
                f"there is no {words!r} in the table; it has {', '.join(','.join(pair) for pair in PAIRS)}"
            )
        found.update(dict.fromkeys(named))
    return [pair for pair in PAIRS if pair in found]


def as_workflow_matrix(pairs: Sequence[Pair]) -> str:
    """The pairs as `strategy.matrix` of a workflow takes them."""
    return json.dumps({"include": [pair._asdict() for pair in pairs]})


def find_interpreter(version: str) -> str:
    """The path of a Python of this version that can make environments; "" if there is none."""
    for candidate in _candidates(version):
        try:
            ran = subprocess.run([candidate, "-c", _IS_USABLE], capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if ran.returncode == 0 and ran.stdout.strip() == version:
            return candidate
    return ""


def _candidates(version: str) -> Iterator[str]:
    """Where a Python of this version may lie: on the path, with pyenv, with uv, or where this script runs."""
    yield sys.executable
    for name in (f"python{version}", "python3", "python"):
        found = shutil.which(name)
        if found:
            yield found
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from (str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python3"), reverse=True))
    uv = shutil.which("uv")
    if uv:
        found = subprocess.run([uv, "python", "find", version], capture_output=True, text=True, check=False).stdout
        if found.strip():
            yield found.strip()


def run_pair(pair: Pair, arguments: Sequence[str]) -> Row:
    """Make the environment of a pair, run the tests in it, and say what came of it."""
    interpreter = find_interpreter(pair.python)
    if not interpreter:
        return Row(pair, "no interpreter")
    FOLDER.mkdir(parents=True, exist_ok=True)
    environment, log = FOLDER / pair.name, FOLDER / f"{pair.name}.log"
    report = FOLDER / f"{pair.name}.xml"
    report.unlink(missing_ok=True)
    with log.open("w", encoding="utf-8") as output:
        made = subprocess.run(
            [str(ROOT / "scripts" / "make_environment.sh"), str(environment), "dev"],
            env={**os.environ, "PYTHON": interpreter, "TORCH_VERSION": pair.torch},
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if made.returncode:
            return Row(pair, "no torch for it" if made.returncode == NO_TORCH else "no environment")
        began = time.monotonic()
        ran = subprocess.run(
            [str(environment / "bin" / "python"), "-m", "pytest", f"--junitxml={report}", *arguments],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    seconds = time.monotonic() - began
    try:
        counts = Counts.from_junit(report.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Row(pair, "pytest did not run")
    return Row(pair, "passed" if ran.returncode == 0 else "failed", counts, seconds)


def main() -> int:
    """The `matrix` command; gives its exit code."""
    arguments = sys.argv[1:]
    for_pytest: list[str] = []
    if "--" in arguments:
        border = arguments.index("--")
        arguments, for_pytest = arguments[:border], arguments[border + 1 :]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], metavar="PYTHON[,TORCH]", help="leave out the others")
    parser.add_argument("--strict", action="store_true", help="fail where an interpreter or a torch is missing, too")
    parser.add_argument("--json", action="store_true", help="print the pairs, and run nothing")
    options = parser.parse_args(arguments)
    try:
        pairs = selected(options.only)
    except ValueError as error:
        parser.error(str(error))
    if options.json:
        print(as_workflow_matrix(pairs))
        return 0
    rows = []
    for pair in pairs:
        print(f"[matrix] Python {pair.python}, torch {pair.torch}", file=sys.stderr, flush=True)
        row = run_pair(pair, for_pytest)
        rows.append(row)
        log = "" if row.is_missing else f", see {(FOLDER / f'{pair.name}.log').relative_to(ROOT)}"
        print(f"[matrix] {row.result}{log}", file=sys.stderr, flush=True)
    print(table(rows))
    return int(any(row.has_failed or (options.strict and row.is_missing) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
