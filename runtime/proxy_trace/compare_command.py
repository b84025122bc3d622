"""The command `proxy-trace compare`."""

from __future__ import annotations

import sys
from typing import Final

import typer

from proxy_trace.options import (
    FirstRunArgument,
    Format,
    FormatOption,
    JobsOption,
    RankOption,
    SecondRunArgument,
    StepOption,
    TensorNameOption,
    open_run,
    print_json,
    print_lines,
)

_DIFFERS: Final = 1

COMPARE_HELP: Final = """
Say up to which step two runs of a script are the same, and what differs first.

A run that no longer matches yesterday's: another version of a library, a line that was changed, a seed that was not \
set. The first difference says where to look. If it is a value at the start, at seeds and checkpoints; if it is a \
gradient, at the data, at what is random, at the loss; if it is a parameter, at the optimizer.

What is compared is what the traces have of each parameter, buffer and gradient after each step: a fingerprint of its \
bits; where one of them is older, minimum, maximum, norm (to a relative 2**-20) and non-finite elements; rank by rank \
where there are several.

[bold]Examples[/bold]

  [cyan]proxy-trace compare proxy_trace/20261121T080911-3f2a9c proxy_trace[/cyan]
  [cyan]proxy-trace compare yesterday/ today/ --name '*norm*' --step 100-[/cyan]
  [cyan]proxy-trace compare a b --format json | jq '.differences[0]'[/cyan]

[bold]Exit codes[/bold]

  0    the runs agree
  1    they differ, or one has what the other lacks
  2    wrong usage, nothing to compare, or no trace
"""


def compare(
    first: FirstRunArgument,
    second: SecondRunArgument,
    name: TensorNameOption = None,
    step: StepOption = None,
    output: FormatOption = Format.TEXT,
    rank: RankOption = None,
    jobs: JobsOption = None,
) -> None:
    """Compare two runs; the text of `--help` is `COMPARE_HELP`."""
    from proxy_trace.colour import Palette
    from proxy_trace.progress import progress_bar
    from proxy_trace.runs import compare_runs
    from proxy_trace.runs_text import run_lines
    from proxy_trace.selection import GlobMatcher, StepRange
    from proxy_trace.workers import count_jobs

    steps = StepRange.parse(step) if step is not None else None
    one, other = open_run(first, rank), open_run(second, rank)
    size = sum(file.size_bytes() for file in (*one.files, *other.files))
    with progress_bar(size, "reading") as on_progress:
        is_chosen = GlobMatcher(name) if name else None
        found = compare_runs(one, other, steps, is_chosen, on_progress, count_jobs(jobs, size))
    if output is Format.JSON:
        print_json([found], indented=True)
    else:
        print_lines(run_lines(found, Palette.for_stream(sys.stdout)))
    if not found.agrees:
        raise typer.Exit(_DIFFERS)
