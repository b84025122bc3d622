"""Measures what `instrument` costs on whole source trees, compared with parsing and with other tools.

    python benchmarks/batch.py TREE... [--scratch DIR] [--every N] [--rounds N]

A TREE is a folder of Python sources, such as site-packages/torch, or timm and transformers as
`pip install --no-deps --target SCRATCH timm transformers` leaves them. Every tree is copied to the scratch folder
(every N-th file of it), and nothing else is written to.

Each line is a separate process, measured in CPU seconds including its children, and in peak memory. The contenders take
turns for `--rounds` rounds, and the fastest round of each counts. The ratio is to `ast.parse` of every file in the
same run. "cold" starts with an empty cache, "warm" with that of the run before last: the run between finds the
files that the cold one has written. Python's startup is included, as it is for a user. Bytecode exists, as after an
install.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
MILLION = 1_000_000

CODEMOD = """
import libcst
from libcst.codemod import VisitorBasedCodemodCommand


class Rename(VisitorBasedCodemodCommand):
    DESCRIPTION = "Renames one call."

    def leave_Call(self, original_node, updated_node):
        if isinstance(updated_node.func, libcst.Name) and updated_node.func.value == "create_model":
            return updated_node.with_changes(func=libcst.Name("make_model"))
        return updated_node
"""


@dataclass(frozen=True)
class Cost:
    """What one process used: CPU seconds with its children, peak memory of the largest of them in MB."""

    cpu_s: float
    peak_mb: float
    code: int


@dataclass
class Contender:
    """One line of the table.

    Attributes:
        name: its name.
        command: returns the command for a tree.
        prepare: called before each round.
        codes: the exit codes that are not failures.
        every: use only every N-th file, for slow tools; the figures are scaled up.
    """

    name: str
    command: Callable[[Path], list[str]]
    prepare: Callable[[], None] = lambda: None
    codes: tuple[int, ...] = (0,)
    every: int = 1
    costs: list[Cost] = field(default_factory=list)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of its fastest round, for all files."""
        return min(cost.cpu_s for cost in self.costs) * self.every

    @property
    def peak_mb(self) -> float:
        """Peak memory of its largest round."""
        return max(cost.peak_mb for cost in self.costs)


def parse_all(tree: Path) -> None:
    for path in sorted(tree.rglob("*.py")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(SyntaxError, ValueError, RecursionError):
                ast.parse(path.read_bytes())


def parse_all_with_libcst(tree: Path) -> None:
    import libcst

    for path in sorted(tree.rglob("*.py")):
        with contextlib.suppress(libcst.ParserSyntaxError, ValueError, RecursionError):
            libcst.parse_module(path.read_bytes())


def run(command: list[str], tree: Path) -> Cost:
    """Run a command in the parent folder of `tree`, in a separate process, so that its usage is measured alone."""
    program = (
        "import json, resource, subprocess, sys\n"
        "code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss, code]))"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime"), str(tree.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", program, *command],
        cwd=tree.parent,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=True,
    )
    cpu_s, peak_kb, code = json.loads(done.stdout)
    return Cost(cpu_s, peak_kb / (1024 * 1024 if sys.platform == "darwin" else 1024), code)


def contenders(tree: Path, scratch: Path, slow: int) -> list[Contender]:
    """The lines of the table for one tree."""
    cache = scratch / "cache"
    python = sys.executable
    this = str(Path(__file__).resolve())

    def instrument(*options: str) -> Callable[[Path], list[str]]:
        return lambda where: [
            python, "-m", "instrumentor", where.name, "-q", "--isolated", "--no-respect-gitignore",
            "--exclude", "__pycache__", "--cache-dir", str(cache), *options,
        ]  # fmt: skip

    def forget() -> None:
        shutil.rmtree(cache, ignore_errors=True)
        for path in tree.rglob("instrumented_*.py"):
            path.unlink()

    def warm_up(command: Callable[[Path], list[str]]) -> None:
        run(command(tree), tree)

    warm = instrument("-j1")

    def codemod(where: Path) -> list[str]:
        options = ["-x", "benchmark_codemod.Rename", "-j", "1", "--no-format"]
        return [python, "-m", "libcst.tool", "codemod", *options, where.name]

    def tool(*command: str) -> Callable[[Path], list[str]]:
        return lambda where: [*command, where.name]

    return [
        Contender("ast.parse of every file", tool(python, this, "--parse", "ast"), forget),
        Contender("instrument, cold, 1 job", instrument("-j1"), forget, (0, 2)),
        Contender("instrument, warm", warm, lambda: warm_up(warm), (0, 2)),
        Contender("instrument, cold, 2 jobs", instrument("-j2"), forget, (0, 2)),
        Contender("ruff check", tool(python, "-m", "ruff", "check", "--isolated", "--no-cache", "-q"), forget, (0, 1)),
        Contender("libcst.parse_module", tool(python, this, "--parse", "libcst"), every=slow),
        Contender("LibCST codemod, 1 job", codemod, codes=(0, 1), every=slow),
        Contender(
            "black --check", tool(python, "-m", "black", "--check", "-q", "-W", "1"), codes=(0, 1, 123), every=slow
        ),
    ]


def copy_tree(source: Path, target: Path, every: int) -> tuple[int, int]:
    """Copy every N-th Python file of a tree.

    Returns:
        The number of files and of lines.
    """
    files = lines = 0
    for number, path in enumerate(sorted(source.rglob("*.py"))):
        if number % every == 0 and "__pycache__" not in path.parts:
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            content = path.read_bytes()
            copy.write_bytes(content)
            then = time.time() - 3600  # sources are older than the run that reads them
            os.utime(copy, (then, then))
            files += 1
            lines += content.count(b"\n")
    return files, lines


def measure(source: Path, scratch: Path, *, every: int, rounds: int, slow: int) -> None:
    """Measure one tree, and print its table."""
    tree = scratch / "all" / source.name
    some = scratch / "some" / source.name
    files, lines = copy_tree(source, tree, every)
    copy_tree(source, some, every * slow)
    for folder in (tree.parent, some.parent):
        (folder / "benchmark_codemod.py").write_text(CODEMOD)
        (folder / ".libcst.codemod.yaml").write_text("modules: ['benchmark_codemod']\n")
    found = contenders(tree, scratch, slow)
    changed = 0
    for _ in range(rounds):
        for contender in found:
            contender.prepare()
            where = some if contender.every > 1 else tree
            cost = run(contender.command(where), where)
            if cost.code not in contender.codes:
                raise SystemExit(f"{contender.name} ended with {cost.code}")
            contender.costs.append(cost)
            changed = max(changed, sum(1 for _ in tree.rglob("instrumented_*.py")))
    print(f"\n{source.name}: {files:,} files, {lines:,} lines, of which {changed:,} files change")
    print(f"{'':28}{'CPU s':>9}{'ratio':>9}{'files/s':>10}{'lines/s':>12}{'peak MB':>9}")
    floor = found[0].cpu_s
    for contender in found:
        cpu_s = contender.cpu_s
        print(
            f"{contender.name:28}{cpu_s:9.2f}{cpu_s / floor:9.2f}{files / cpu_s:10,.0f}{lines / cpu_s:12,.0f}"
            f"{contender.peak_mb:9.0f}" + (f"   (every {contender.every}th file)" if contender.every > 1 else "")
        )
    _print_fit(tree, scratch, found[1])


def _print_fit(tree: Path, scratch: Path, cold: Contender) -> None:
    """Fit CPU seconds against the number of files, over parts of the tree, and extrapolate to a million files."""
    points = []
    cold.prepare()  # removes what was written into the tree
    for part in (8, 4, 2, 1):
        where = scratch / f"part{part}" / tree.name
        files, _ = copy_tree(tree, where, part)
        cold.prepare()
        points.append((files, run(cold.command(where), where).cpu_s))
    xs, ys = zip(*points, strict=True)
    fit = statistics.linear_regression(xs, ys)
    correlation = statistics.correlation(xs, ys)
    hours = (fit.intercept + fit.slope * MILLION) / 3600
    print(
        f"cold, over {', '.join(f'{x:,}' for x in xs)} files: {fit.intercept:.2f} s + {1000 * fit.slope:.2f} ms a file"
        f" (r = {correlation:.4f}); a million files: {hours:.1f} CPU hours"
    )


def main() -> None:
    """Measure the trees on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE")
    parser.add_argument("--scratch", type=Path, help="where to copy the trees to (default: a temporary folder)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th file")
    parser.add_argument(
        "--slow-every", type=int, default=10, metavar="N", help="the same, for libcst and black, scaled up"
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--parse", choices=("ast", "libcst"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.parse:
        {"ast": parse_all, "libcst": parse_all_with_libcst}[options.parse](options.trees[0])
        return
    compileall.compile_dir(ROOT / "instrumentor", quiet=1)
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    for source in options.trees:
        with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
            measure(
                source.resolve(), Path(scratch), every=options.every, rounds=options.rounds, slow=options.slow_every
            )


if __name__ == "__main__":
    main()
