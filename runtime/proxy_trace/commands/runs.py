"""The command `proxy-trace runs`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from proxy_trace.commands.options import DEFAULT_RUN, Format, FormatOption, JobsOption, print_json, print_lines

_DEFAULT_LIMIT: Final = 20

RUNS_HELP: Final = """
List runs with their findings, newest first.

Each line shows when a run started, the script and its arguments, steps, findings by severity, and the codes of the \
most severe. For this, runs are read completely, several at a time; [cyan]--no-findings[/cyan] reads only the first \
line of each file. Findings that `\\[tool.proxy-trace]` in a pyproject.toml leaves out are not counted.

[bold]Examples[/bold]

  [cyan]proxy-trace runs[/cyan]
  [cyan]proxy-trace runs experiments/proxy_trace --limit 100[/cyan]
  [cyan]proxy-trace runs --format json | jq -r 'select(.findings.error) | .path'[/cyan]
"""


def runs(
    logdir: Annotated[
        Path | None,
        typer.Argument(
            metavar="LOGDIR",
            help=f"The directory that contains the runs. Default: ./{DEFAULT_RUN}",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-l", metavar="N", min=1, help="Only the N newest.")
    ] = _DEFAULT_LIMIT,
    no_findings: Annotated[
        bool, typer.Option("--no-findings", help="Do not look for findings, so that no run is read completely.")
    ] = False,
    output: FormatOption = Format.TEXT,
    jobs: JobsOption = None,
) -> None:
    """List the runs; the text of `--help` is `RUNS_HELP`."""
    from proxy_trace.checks.all_checks import all_rules
    from proxy_trace.checks.choice import read_choice
    from proxy_trace.errors import NoRunGivenError
    from proxy_trace.reading.workers import Workers, count_jobs
    from proxy_trace.summary.run_list import list_runs, newest_runs
    from proxy_trace.summary.run_list_text import run_list_lines
    from proxy_trace.terminal.colour import Palette
    from proxy_trace.terminal.line_width import output_width
    from proxy_trace.terminal.progress import progress_bar

    if logdir is None and not Path(DEFAULT_RUN).exists():
        raise NoRunGivenError(DEFAULT_RUN)
    every = newest_runs(logdir or Path(DEFAULT_RUN))
    chosen = every[:limit]
    choice = read_choice(all_rules(), None, None, None)
    size = 0 if no_findings else sum(file.stat().st_size for run in chosen for file in run.glob("*.jsonl"))
    with progress_bar(size, "reading") as on_progress, Workers(count_jobs(jobs, size), on_progress) as workers:
        listed = list_runs(chosen, choice, workers, with_findings=not no_findings)
    if output is Format.JSON:
        print_json(listed)
    else:
        palette = Palette.for_stream(sys.stdout)
        print_lines(run_list_lines(listed, len(every) - len(chosen), palette, output_width()))
