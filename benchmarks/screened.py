"""Analyses files of a tree that the screen dismissed, and reports any that the analysis changes: there must be none.

    python benchmarks/screened.py TREE [--sample N] [--seed SEED]

The exit code is 1 if one is found.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from pathlib import Path

from instrumentor.engine.calls_between import CallsBetween
from instrumentor.engine.dismissed import find_dismissed
from instrumentor.engine.outcome import Task
from instrumentor.engine.work import process_batch
from instrumentor.resolve.libraries import Libraries
from instrumentor.resolve.search_path import SearchPaths
from instrumentor.settings import Settings


def main() -> int:
    """Run the command; gives its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--sample", type=int, default=200, help="how many of the files are analysed (200)")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    options = parser.parse_args()
    search = SearchPaths()
    paths = [str(path.resolve()) for path in sorted(options.tree.rglob("*.py"))]
    calls = CallsBetween(paths, search, None)
    tasks = {path: _task(path, str(options.tree), search, calls) for path in paths}
    started = time.process_time()
    dismissed = find_dismissed(tasks.values(), search)
    spent = time.process_time() - started
    print(f"{len(dismissed):,} of {len(paths):,} files dismissed in {spent:.1f} CPU s", flush=True)
    sample = random.Random(options.seed).sample(sorted(dismissed), min(options.sample, len(dismissed)))
    libraries = Libraries()
    changed = []
    for count, path in enumerate(sample, 1):
        if process_batch([tasks[path]], libraries)[0].status == "changed":
            changed.append(path)
            print(f"changed: {path}", flush=True)
        if count % 25 == 0 or count == len(sample):
            print(f"{count} of {len(sample)} analysed, {len(changed)} changed", flush=True)
    return 1 if changed else 0


def _task(path: str, root: str, search: SearchPaths, calls: CallsBetween) -> Task:
    packages = search.packages(os.path.dirname(path))  # noqa: PTH120
    return Task(path, path, path, Settings(), root=root, packages=packages, called=calls.of(path))


if __name__ == "__main__":
    sys.exit(main())
