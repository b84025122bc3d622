"""Counts the training bugs that `proxy-trace summary` names, and the false alarms that it raises.

Each pair of `fixtures/bugs` is instrumented at INFO and run, the script with the bug and the one without, and the
findings of both runs are compared with what the pair is for:

    named          an error or a warning has the code of the bug; "with place" if it names the line, too, within two
    noted          only a note has
    flagged        another error or warning says that something is wrong, not what
    missed         neither
    false alarms   there is an error or a warning in the script without the bug
    shown by --against    of the first five differences that `summary BUGGY --against CORRECT` tells, one is at a line
                   in which the scripts differ, within two, or names what differs there

Checks are fitted on one half of the pairs, drawn by the hash of the name; what they are worth is in the other's row.

    python benchmarks/diagnosis.py
    python benchmarks/diagnosis.py --half held-out --format markdown
    python benchmarks/diagnosis.py --pair clip_after_step --pair folds_share_a_model
    python benchmarks/diagnosis.py --style renamed     # the same programs, written otherwise (bugs/styles.py)
    python benchmarks/diagnosis.py --no-pairs --script path/to/train.py path/to/other.py     # scripts that are right
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bugs.good_run import is_shown
from bugs.pairs import HALVES, in_style, read_pairs
from bugs.styles import STYLES, StyleError
from bugs.tables import render
from bugs.traced_run import RunFailedError, trace_pair, trace_script
from bugs.verdicts import Verdict, as_json, describe, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bugs.pairs import Pair


@dataclass(frozen=True)
class Alarms:
    """The findings in a correct script: its errors and warnings, and why it did not run, or ""."""

    script: str
    found: tuple[str, ...] = ()
    problem: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and print the table; the exit code is always 0."""
    args = _parse(arguments)
    pairs = [] if args.no_pairs else _selected(args.pair, args.half)
    tasks: list[Callable[[], Verdict | Alarms]] = [partial(_try_pair, pair, args.style) for pair in pairs]
    tasks += [partial(_try_script, script) for script in args.script]
    results = _results(tasks, args.jobs)
    verdicts = sorted((one for one in results if isinstance(one, Verdict)), key=lambda one: one.pair)
    scripts = {one.script: one.found for one in results if isinstance(one, Alarms) and not one.problem}
    if args.format == "json":
        print(json.dumps({"pairs": as_json(verdicts), "scripts": scripts}, indent=2))
    else:
        print(render(verdicts, scripts, args.format), end="")
    return 0


def _results(tasks: Sequence[Callable[[], Verdict | Alarms]], jobs: int) -> list[Verdict | Alarms]:
    """The results of the tasks; after an interrupt, those of the finished tasks."""
    results: list[Verdict | Alarms] = []
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            for future in as_completed(futures):
                results.append(future.result())
                print(f"{len(results)}/{len(tasks)} {_in_words(results[-1])}", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            print(f"interrupted: what follows is of {len(results)}/{len(tasks)}", file=sys.stderr)
    return results


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pair", action="append", metavar="NAME", help="only this pair; may be given several times")
    parser.add_argument("--half", choices=(*HALVES, "all"), default="all", help="only the pairs of one half")
    parser.add_argument("--style", choices=STYLES, help="rewrite the pairs in this style first")
    parser.add_argument("--no-pairs", action="store_true", help="no pair at all, only what --script names")
    parser.add_argument("--script", nargs="+", type=Path, default=[], metavar="FILE", help="scripts that train rightly")
    parser.add_argument("--jobs", type=int, default=_processors(), help="how many run at a time (default: processors)")
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text")
    return parser.parse_args(arguments)


def _processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _selected(names: Sequence[str] | None, half: str) -> list[Pair]:
    """The requested pairs; an unknown name ends the program."""
    pairs = read_pairs()
    if names and (unknown := set(names) - {pair.name for pair in pairs}):
        sys.exit(f"No pair is named {', '.join(sorted(unknown))}; the folders of fixtures/bugs are the names.")
    return [pair for pair in pairs if (not names or pair.name in names) and half in (pair.half, "all")]


def _try_pair(pair: Pair, style: str | None) -> Verdict:
    """The findings in both scripts of a pair, as they are or in a style."""
    try:
        with tempfile.TemporaryDirectory(prefix="diagnosis-") as folder:
            tried = pair if style is None else in_style(pair, style, Path(folder))
            buggy, correct = trace_pair(tried.buggy, tried.correct)
            return judge(tried, buggy.findings, correct, is_shown=is_shown(tried, buggy.deviations))
    except (RunFailedError, StyleError) as error:
        return Verdict(pair.name, pair.area, pair.half, pair.code, "failed", problem=str(error))


def _try_script(script: Path) -> Alarms:
    """The findings in a correct script."""
    try:
        found = trace_script(script)
    except RunFailedError as error:
        return Alarms(str(script), problem=str(error))
    return Alarms(str(script), tuple(describe(finding) for finding in found if finding.is_alarm))


def _in_words(result: Verdict | Alarms) -> str:
    """A line of progress."""
    if isinstance(result, Alarms):
        return f"{result.script}: {result.problem or '; '.join(result.found) or 'no alarm'}"
    said = f"{result.pair} ({result.expected}): {result.verdict}"
    if result.problem:
        return f"{said}, {result.problem}"
    if result.found:
        said += f", {'at its place' if result.is_placed else 'found'}: {'; '.join(result.found)}"
    return f"{said}; false alarms: {'; '.join(result.false_alarms)}" if result.false_alarms else said


if __name__ == "__main__":
    sys.exit(main())
