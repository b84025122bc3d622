"""The command `proxy-trace report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from proxy_trace.commands.options import (
    JobsOption,
    RankOption,
    RunArgument,
    StepOption,
    open_run,
    print_lines,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.reading.selection import GlobMatcher, StepRange
    from proxy_trace.reading.trace import Trace

REPORT_HELP: Final = """
Write a run as an HTML page: what looks wrong, and how it trained.

Findings come first, each with its place, its evidence and what to do. Then come the loss and the learning rates, the \
curves of any parameter, the modules with their times, the calls of one step in order, and the script with what \
happens at its lines. The page is a single file that loads nothing from elsewhere. Ranks are overlaid.

With [cyan]OTHER[/cyan], two runs are overlaid, and the page shows where they diverge, as in \
[cyan]proxy-trace compare --records[/cyan].

[bold]Examples[/bold]

  [cyan]proxy-trace report[/cyan]
  [cyan]proxy-trace report proxy_trace -o run.html --force[/cyan]
  [cyan]proxy-trace report yesterday/ today/ -o parting.html[/cyan]
  [cyan]proxy-trace report --step 1000-1100 --name 'model.head.*'[/cyan]
"""


def report(
    run: RunArgument = None,
    other: Annotated[
        Path | None,
        typer.Argument(metavar="OTHER", help="A second run, to overlay on the first.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="The page. Default: ./RUN_ID.html, or ./RUN_ID-OTHER_ID.html.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace an existing page.")] = False,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            "-n",
            metavar="GLOB",
            help="Only parameters and buffers with a matching name; with OTHER, only records that name a match.",
            show_default=False,
        ),
    ] = None,
    step: StepOption = None,
    rank: RankOption = None,
    jobs: JobsOption = None,
) -> None:
    """Write the page; the text of `--help` is `REPORT_HELP`."""
    from proxy_trace.commands.suggestions import check_names
    from proxy_trace.export.output import whole_or_nothing
    from proxy_trace.reading.selection import GlobMatcher, StepRange

    steps = StepRange.parse(step) if step is not None else None
    is_chosen = GlobMatcher(name) if name else None
    traces = [open_run(run, rank)]
    if other is not None:
        traces.append(open_run(other, rank))
    check_names(traces, name)
    names = "-".join(trace.files[0].run.run for trace in traces)
    target = output or Path(f"{names}.html")
    with whole_or_nothing(target, force=force) as aside:
        page, words = _page(traces, steps, is_chosen, jobs)
        aside.write_bytes(page.encode("utf-8", "backslashreplace"))
    print_lines([f"{target}: {words}"])


def _page(
    traces: Sequence[Trace], steps: StepRange | None, is_chosen: GlobMatcher | None, jobs: int | None
) -> tuple[str, str]:
    """The page, and a summary of it in a few words."""
    from proxy_trace.checks.all_checks import all_checks, all_rules
    from proxy_trace.checks.choice import read_choice
    from proxy_trace.reading.selection import Period
    from proxy_trace.reading.workers import Workers, count_jobs
    from proxy_trace.report.drawn_processes import DrawnRun, draw_processes
    from proxy_trace.report.page import RunPage, render
    from proxy_trace.report.script_lines import read_scripts
    from proxy_trace.summary.run_summary import summarize
    from proxy_trace.terminal.progress import progress_bar

    checks = all_checks()
    rules = all_rules(checks)
    choice = read_choice(rules, None, None, None)
    period = Period(steps) if steps is not None else None
    size = sum(file.size_bytes() for trace in traces for file in trace.files)
    workers_of = count_jobs(jobs, size)
    # Each file is read twice: for the summary, and for the curves of the processes that trained.
    with progress_bar(2 * size, "reading") as on_progress, Workers(workers_of, on_progress) as workers:
        summaries = [summarize(trace, workers, period, checks, choice) for trace in traces]
        labels = ("first", "second") if len(traces) > 1 else ("",)
        runs = [DrawnRun(*each) for each in zip(traces, summaries, labels, strict=True)]
        processes, not_drawn = draw_processes(runs, workers, steps, is_chosen)
    marks = [mark for process in processes for mark in process.curves.marks]
    scripts = read_scripts(marks, {file.run.script for trace in traces for file in trace.files}, _folders(traces))
    found = sum(finding.severity != "note" for summary in summaries for finding in summary.findings)
    words = "1 finding" if found == 1 else f"{found:,} findings"
    parting = ""
    if len(traces) > 1:
        parting, words = _parting(traces, steps, is_chosen, workers_of)
    return render(RunPage(summaries, rules, processes, not_drawn, scripts, parting)), words


def _parting(
    traces: Sequence[Trace], steps: StepRange | None, is_chosen: GlobMatcher | None, jobs: int
) -> tuple[str, str]:
    """Where two runs part: the section of the page, and one sentence."""
    from proxy_trace.comparison.records.compare_records import compare_records
    from proxy_trace.comparison.records.records_text import verdict
    from proxy_trace.reading.workers import Workers
    from proxy_trace.report.parting_section import parting_section
    from proxy_trace.terminal.progress import progress_bar

    size = sum(file.size_bytes() for trace in traces for file in trace.files)
    with progress_bar(size, "comparing") as on_progress, Workers(jobs, on_progress) as workers:
        found = compare_records(traces[0], traces[1], steps, is_chosen, workers)
    return parting_section(found), verdict(found)


def _folders(traces: Sequence[Trace]) -> list[Path]:
    """The folders to which relative paths in a trace may refer: the current one, and the one that holds the logdir."""
    folders = [Path.cwd()]
    for trace in traces:
        folders += trace.files[0].path.absolute().parents[:3]
    return list(dict.fromkeys(folders))
