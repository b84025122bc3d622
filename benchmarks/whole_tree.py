"""Checks the guarantees of `instrument` on a whole source tree, and measures the cost.

    python benchmarks/whole_tree.py TREE... [--scratch DIR] [--shard I/N] [--jobs N] [--no-reports]

A TREE is a folder of Python sources, such as site-packages/timm. It is copied to the scratch folder, and nothing else
is written to. Each line that is printed says of one promise that it holds, or what breaks it:

    failures   no file failed, or which did and why
    compiles   every file that was changed is Python
    twice      a second run changes nothing
    revert     `--revert` restores every byte, and leaves nothing behind
    patch      `git apply` of what `--diff` prints gives the tree that `--in-place` gives
    reports    all four kinds are written; each lists the files that change
    screening  what is analysed in full for the reports changes the files that `--in-place` has changed, and no other

Reports analyse every file in full, which takes most of the time. The exit code is 1 if a promise does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ("json", "sarif", "md", "html")
MAX_COMMENT = 65_536  # characters of a comment that GitHub takes


@dataclass(frozen=True)
class Run:
    """One run of the command: its exit code, what it printed, and what it used."""

    code: int
    output: bytes
    messages: str
    wall_s: float
    cpu_s: float
    peak_mb: float

    def __str__(self) -> str:
        return f"exit {self.code}, {self.wall_s:,.0f} s, {self.cpu_s:,.1f} CPU s, {self.peak_mb:,.0f} MB at most"


@dataclass
class Tree:
    """A copy of a tree, and the results of its checks.

    Attributes:
        folder: the folder of the copy.
        options: the options of every run.
        original: the original bytes of all files.
        broken: the guarantees that do not hold.
    """

    folder: Path
    options: Sequence[str]
    original: dict[str, bytes] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def instrument(self, *options: str) -> Run:
        """Run the command on the tree in a separate process, so that its usage is measured alone."""
        program = (
            "import json, resource, subprocess, sys\n"
            "code = subprocess.call(sys.argv[1:])\n"
            "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
            "sys.stderr.write('\\n' + json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss]))"
        )
        command = [sys.executable, "-m", "instrumentor", self.folder.name, *self.options, *options]
        path = os.pathsep.join([str(ROOT), str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")])
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", program, *command],
            cwd=self.folder.parent,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            check=True,
        )
        messages, _, used = done.stderr.decode(errors="replace").rpartition("\n")
        code, cpu_s, peak_kb = json.loads(used)
        peak_mb = peak_kb / (1024 * 1024 if sys.platform == "darwin" else 1024)
        return Run(code, done.stdout, messages, time.perf_counter() - started, cpu_s, peak_mb)

    def read(self) -> dict[str, bytes]:
        """The bytes of all files, by their paths."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink())
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in files}

    def restore(self) -> None:
        """Restore the original files."""
        for name, content in self.read().items():
            if name not in self.original:
                (self.folder / name).unlink()
            elif content != self.original[name]:
                (self.folder / name).write_bytes(self.original[name])

    def say(self, promise: str, wrong: Sequence[str], fine: str) -> None:
        """Print whether a promise holds."""
        if wrong:
            self.broken.append(promise)
        shown = "; ".join(wrong[:5]) + (f"; and {len(wrong) - 5:,} more" if len(wrong) > 5 else "")
        print(f"  {promise:10} {'BROKEN: ' + shown if wrong else fine}", flush=True)


def changed_names(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """The files that differ between two states of a tree."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def errors_of_compiling(files: dict[str, bytes], names: Sequence[str]) -> list[str]:
    """The compiler's errors for files that are no longer Python."""
    found = []
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                compile(files[name], name, "exec", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                found.append(f"{name}: {error}")
    return found


def check(tree: Tree, *, with_reports: bool) -> None:
    """Check one tree and print the results."""
    tree.original = tree.read()
    scripts = sum(name.endswith(".py") for name in tree.original)
    print(f"{tree.folder.name}: {scripts:,} Python files", flush=True)

    cold = tree.instrument("--in-place")
    instrumented = tree.read()
    changed = changed_names(tree.original, instrumented)
    print(f"  cold       {len(changed):,} files changed; {cold}", flush=True)
    failures = cold.messages.rpartition(" failed:\n")[2].splitlines() if cold.code else []  # failures come last
    tree.say("failures", failures, "none")
    tree.say("compiles", errors_of_compiling(instrumented, [name for name in changed if name.endswith(".py")]), "all")

    warm = tree.instrument("--in-place")
    tree.say("twice", changed_names(instrumented, tree.read()), f"changes nothing; {warm}")

    reverted = tree.instrument("--revert")
    tree.say("revert", changed_names(tree.original, tree.read()), f"every byte is as it was; {reverted}")
    tree.restore()

    diff = tree.instrument("--diff")
    tree.say("patch", _errors_of_patch(tree, diff.output, instrumented), f"gives the same tree; {diff}")
    tree.restore()

    if with_reports:
        _check_reports(tree, changed)


def _errors_of_patch(tree: Tree, patch: bytes, wanted: dict[str, bytes]) -> list[str]:
    where = tree.folder.parent
    (where / "instrument.patch").write_bytes(patch)
    if patch:
        for options in (["--check"], []):
            command = ["git", "apply", "--whitespace=nowarn", *options, "instrument.patch"]
            done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
            if done.returncode:
                return [f"git apply {' '.join(options)}: {done.stderr.strip()}"]
    return changed_names(wanted, tree.read())


def _check_reports(tree: Tree, changed: Sequence[str]) -> None:
    where = tree.folder.parent
    options = [option for kind in REPORTS for option in ("--report", f"report.{kind}")]
    run = tree.instrument("--check", *options)
    texts = {kind: (where / f"report.{kind}").read_text(encoding="utf-8") for kind in REPORTS}
    prefix = f"{tree.folder.name}/"
    records = json.loads(texts["json"])["files"]
    listed = sorted(each["path"].removeprefix(prefix) for each in records if each["status"] == "changed")
    results = json.loads(texts["sarif"])["runs"][0]["results"]
    located = {
        unquote(each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]).removeprefix(prefix)
        for each in results
        if each["level"] == "note"
    }
    wrong = [f"not in report.sarif: {name}" for name in changed if name not in located]
    wrong += [f"not in report.html: {name}" for name in changed if escape(name) not in texts["html"]]
    if len(texts["md"]) > MAX_COMMENT:
        wrong.append(f"report.md has {len(texts['md']):,} characters")
    sizes = ", ".join(f"{kind} {len(text) / 1e6:.1f}" for kind, text in texts.items())
    tree.say("reports", wrong, f"{len(results):,} findings; MB: {sizes}; {run}")
    differing = sorted(set(listed) ^ set(changed))
    tree.say("screening", differing, "the same files change")


def copy_of(tree: Path, scratch: Path) -> Path:
    """Copy a tree's files into a repository of its own below the scratch folder."""
    where = scratch / tree.name
    shutil.rmtree(where, ignore_errors=True)
    target = where / tree.name
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.so.*", "*.a", "*.lib", "*.dll", "*.dylib", ".git")
    shutil.copytree(tree, target, ignore=ignored, ignore_dangling_symlinks=True)
    subprocess.run(["git", "init", "-q", "."], cwd=where, check=True)
    return target


def main() -> None:
    """Check the trees on the command line."""
    parser = argparse.ArgumentParser(description="What `instrument` promises, tried on whole trees.")
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--scratch", type=Path, help="where the copies go (default: a temporary folder)")
    parser.add_argument("--shard", help="only part I/N of the files, as `instrument --shard` takes them")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-reports", action="store_true", help="leave out what analyses every file in full")
    options = parser.parse_args()
    broken = []
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(tempfile.TemporaryDirectory(prefix="instrument-trees-"))
        scratch = Path(made) if options.scratch is None else options.scratch.resolve()
        for each in options.trees:
            folder = copy_of(each.resolve(), scratch)
            cache = folder.parent / "cache"
            command = ["--isolated", "--no-respect-gitignore", "--cache-dir", str(cache), f"-j{options.jobs}"]
            if options.shard:
                command += ["--shard", options.shard]
            tree = Tree(folder, command)
            check(tree, with_reports=not options.no_reports)
            broken += tree.broken
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
