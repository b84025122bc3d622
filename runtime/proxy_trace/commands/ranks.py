"""The command `proxy-trace ranks`."""

from __future__ import annotations

import sys
from typing import Final

import typer

from proxy_trace.commands.options import (
    Format,
    FormatOption,
    JobsOption,
    RunArgument,
    StepOption,
    TensorNameOption,
    open_run,
    print_json,
    print_lines,
)

_DIFFERS: Final = 1

RANKS_HELP: Final = """
Show which parameters differ between ranks that should hold the same values, and from which step.

Under data parallelism, all ranks should hold the same parameters after every step; under tensor parallelism, those \
that are not split. A parameter left out of an all-reduce, a gradient that only one rank clips, or a different seed \
does not show in the loss: the ranks drift apart, and the checkpoint of rank 0 is not the model that was trained.

Parameters are compared when training begins and after each step, by a fingerprint of their bits; in traces of older \
versions by minimum, maximum, norm (to a relative 2**-20) and the number of non-finite elements. Sharded parameters \
(DTensors of FSDP2 or tensor parallelism) are only compared between ranks that hold the same shard.

[bold]Examples[/bold]

  [cyan]proxy-trace ranks[/cyan]
  [cyan]proxy-trace ranks --name '*norm*' --step 100-[/cyan]
  [cyan]proxy-trace ranks --format json | jq -r '.drifted[].name'[/cyan]

[bold]Exit codes[/bold]

  0    all parameters agree
  1    some differ
  2    wrong usage, nothing to compare, or no trace of several ranks
"""


def ranks(
    run: RunArgument = None,
    name: TensorNameOption = None,
    step: StepOption = None,
    output: FormatOption = Format.TEXT,
    jobs: JobsOption = None,
) -> None:
    """Compare the ranks of a run; the text of `--help` is `RANKS_HELP`."""
    from proxy_trace.commands.suggestions import check_names
    from proxy_trace.comparison.ranks import compare_ranks
    from proxy_trace.comparison.ranks_text import ranks_lines
    from proxy_trace.reading.selection import GlobMatcher, StepRange
    from proxy_trace.reading.workers import Workers, count_jobs
    from proxy_trace.terminal.colour import Palette
    from proxy_trace.terminal.progress import progress_bar

    steps = StepRange.parse(step) if step is not None else None
    trace = open_run(run)
    check_names([trace], name)
    size = sum(file.size_bytes() for file in trace.files)
    with progress_bar(size, "reading") as on_progress, Workers(count_jobs(jobs, size), on_progress) as workers:
        found = compare_ranks(trace, steps, GlobMatcher(name) if name else None, workers)
    if output is Format.JSON:
        print_json([found], indented=True)
    else:
        print_lines(ranks_lines(found, Palette.for_stream(sys.stdout)))
    if not found.agrees:
        raise typer.Exit(_DIFFERS)
