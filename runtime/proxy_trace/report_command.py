"""The command `proxy-trace report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from proxy_trace.options import (
    ComparedNameOption,
    JobsOption,
    RankOption,
    StepOption,
    open_run,
    print_lines,
)

REPORT_HELP: Final = """
Write a page that shows where two runs part, and how far they go apart from there.

It says what [cyan]proxy-trace compare --records[/cyan] says, with plots of the distances between outputs, gradients \
and parameters by module and step. The page is one file of HTML that needs nothing else: it loads nothing, and runs no \
script.

[bold]Examples[/bold]

  [cyan]proxy-trace report yesterday/ today/[/cyan]
  [cyan]proxy-trace report yesterday/ today/ -o parting.html --force[/cyan]
"""


def report(
    first: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run directory, one of its .jsonl files, or the logdir.")
    ],
    second: Annotated[Path, typer.Argument(metavar="OTHER", help="The run to compare it with, likewise.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="PATH", help="The page. Default: ./RUN_ID-OTHER_ID.html.", show_default=False
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace a page that is there.")] = False,
    name: ComparedNameOption = None,
    step: StepOption = None,
    rank: RankOption = None,
    jobs: JobsOption = None,
) -> None:
    """Write the page; the text of `--help` is `REPORT_HELP`."""
    from proxy_trace.export.output import whole_or_nothing
    from proxy_trace.progress import progress_bar
    from proxy_trace.records.compare_records import compare_records
    from proxy_trace.records.records_text import verdict
    from proxy_trace.report.page import render
    from proxy_trace.selection import GlobMatcher, StepRange
    from proxy_trace.workers import count_jobs

    steps = StepRange.parse(step) if step is not None else None
    one, other = open_run(first, rank), open_run(second, rank)
    size = sum(file.size_bytes() for file in (*one.files, *other.files))
    with progress_bar(size, "reading") as on_progress:
        is_chosen = GlobMatcher(name) if name else None
        found = compare_records(one, other, steps, is_chosen, on_progress, count_jobs(jobs, size))
    target = output or Path(f"{one.files[0].run.run}-{other.files[0].run.run}.html")
    with whole_or_nothing(target, force=force) as aside:
        aside.write_bytes(render(found).encode("utf-8", "backslashreplace"))
    print_lines([f"{target}: {verdict(found)}"])
