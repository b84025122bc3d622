"""The command `proxy-trace compare`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from proxy_trace.commands.options import (
    ComparedNameOption,
    ComparedRunsArgument,
    Format,
    FormatOption,
    JobsOption,
    RankOption,
    StepOption,
    open_run,
    print_json,
    print_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy_trace.comparison.baseline.compare_with_baseline import BaselineComparison
    from proxy_trace.comparison.records.compare_records import RecordComparison
    from proxy_trace.comparison.runs import RunComparison
    from proxy_trace.reading.trace import Trace
    from proxy_trace.terminal.colour import Palette

    Found: TypeAlias = BaselineComparison | RecordComparison | RunComparison

_DIFFERS: Final = 1

COMPARE_HELP: Final = """
Find the step at which two runs of a script diverge, and what differs first.

Use it when a run no longer matches yesterday's: a library was upgraded, a line was changed, a seed was not set. The \
first difference says where to look: for a value at the start, at seeds and checkpoints; for a gradient, at the data, \
random operations and the loss; for a parameter, at the optimizer.

With [cyan]--records[/cyan] the runs are compared record by record. Records are aligned by what happens, not by line, \
so you can compare two versions of a script. The output shows the first record that differs, with module, step, both \
lines and the origin of the values, and then how far outputs, gradients and parameters diverge.

With [cyan]--baseline[/cyan] the first RUN is compared with several runs that differ from each other only in their \
seeds. The output lists the values that lie outside the range of these runs.

Otherwise the runs are compared by the fingerprints of each parameter, buffer and gradient after each step, and of \
module outputs, rank by rank. Traces of older versions have no fingerprints. For these, minimum, maximum, norm (to a \
relative 2**-20) and the number of non-finite elements are compared.

[bold]Examples[/bold]

  [cyan]proxy-trace compare proxy_trace/20261121T080911-3f2a9c proxy_trace[/cyan]
  [cyan]proxy-trace compare yesterday/ today/ --records[/cyan]
  [cyan]proxy-trace compare today/ --baseline seeds/*[/cyan]
  [cyan]proxy-trace compare yesterday/ today/ --name '*norm*' --step 100-[/cyan]
  [cyan]proxy-trace compare a b --format json | jq '.differences[0]'[/cyan]

[bold]Exit codes[/bold]

  0    the runs agree
  1    they differ, or one has what the other lacks
  2    wrong usage, nothing to compare, or no trace
"""


def compare(
    runs: ComparedRunsArgument,
    records: Annotated[
        bool, typer.Option("--records", help="Compare record by record, and show the first record that differs.")
    ] = False,
    baseline: Annotated[
        bool,
        typer.Option("--baseline", help="Compare the first RUN with all others, which differ only in their seeds."),
    ] = False,
    name: ComparedNameOption = None,
    step: StepOption = None,
    output: FormatOption = Format.TEXT,
    rank: RankOption = None,
    jobs: JobsOption = None,
) -> None:
    """Compare two runs, or one with several; the text of `--help` is `COMPARE_HELP`."""
    from proxy_trace.commands.suggestions import check_names
    from proxy_trace.reading.selection import GlobMatcher, StepRange
    from proxy_trace.reading.workers import Workers, count_jobs
    from proxy_trace.terminal.progress import progress_bar

    _check_count(len(runs), records=records, baseline=baseline)
    steps = StepRange.parse(step) if step is not None else None
    traces = [open_run(run, rank) for run in runs]
    if not records:  # These name more than parameters: functions, attributes.
        check_names(traces, name, with_modules=True)
    size = sum(file.size_bytes() for trace in traces for file in trace.files)
    is_chosen = GlobMatcher(name) if name else None
    passes = 1 if records else 2
    compare_them = _with_baseline if baseline else _records if records else _step_by_step
    with (
        progress_bar(passes * size, "reading") as on_progress,
        Workers(count_jobs(jobs, size), on_progress) as workers,
    ):
        found, lines = compare_them(traces, steps, is_chosen, workers)
    if output is Format.JSON:
        print_json([found], indented=True)
    else:
        print_lines(lines)
    if not found.agrees:
        raise typer.Exit(_DIFFERS)


def _check_count(runs: int, *, records: bool, baseline: bool) -> None:
    if records and baseline:
        raise typer.BadParameter(
            "--records compares two runs, and --baseline one with several: give only one of these options."
        )
    if not baseline and runs != 2:
        raise typer.BadParameter("compare takes two runs; with --baseline, a run and the runs to compare it with.")


def _step_by_step(traces: list[Trace], *options: Any) -> tuple[Found, Iterable[str]]:
    from proxy_trace.comparison.runs import compare_runs
    from proxy_trace.comparison.runs_text import run_lines

    first, second = traces
    found = compare_runs(first, second, *options)
    return found, run_lines(found, _palette())


def _records(traces: list[Trace], *options: Any) -> tuple[Found, Iterable[str]]:
    from proxy_trace.comparison.records.compare_records import compare_records
    from proxy_trace.comparison.records.records_text import record_lines

    first, second = traces
    found = compare_records(first, second, *options)
    return found, record_lines(found, _palette())


def _with_baseline(traces: list[Trace], *options: Any) -> tuple[Found, Iterable[str]]:
    from proxy_trace.comparison.baseline.baseline_text import baseline_lines
    from proxy_trace.comparison.baseline.compare_with_baseline import compare_with_baseline

    found = compare_with_baseline(traces[0], traces[1:], *options)
    return found, baseline_lines(found, _palette())


def _palette() -> Palette:
    from proxy_trace.terminal.colour import Palette

    return Palette.for_stream(sys.stdout)
