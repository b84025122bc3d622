"""`proxy-trace summary`: what happened in a run, and what looks wrong."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path  # noqa: TC003  Typer looks the types of parameters up.
from typing import TYPE_CHECKING, Annotated, Final

import typer

from proxy_trace.commands.options import (
    JobsOption,
    RankOption,
    RunArgument,
    StageOption,
    StepOption,
    open_run,
    print_json,
    print_lines,
    print_note,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy_trace.checks.finding import Finding
    from proxy_trace.checks.rule import Rule
    from proxy_trace.summary.run_summary import Summary

SUMMARY_HELP: Final = """
Summarise a run: first what looks wrong, then what happened.

One line says how many checks passed, and what was not checked. Then come the findings, the most severe first, each \
with its place in the script, what to do, and how to see more; `proxy-trace explain CODE` explains them. Two tables \
follow, of modules (calls and times) and of parameters (updates, and how their values moved).

[bold]Examples[/bold]

  [cyan]proxy-trace summary[/cyan]
  [cyan]proxy-trace summary proxy_trace --rank 3[/cyan]
  [cyan]proxy-trace summary --step 1000- --stage train[/cyan]
  [cyan]proxy-trace summary --against proxy_trace/GOOD_RUN_ID[/cyan]
  [cyan]proxy-trace summary --format json | jq '.findings[]'[/cyan]

[bold]In continuous integration[/bold]

  [cyan]proxy-trace summary --fail-on error --format github[/cyan]
  [cyan]proxy-trace summary --write-baseline known.json[/cyan]
  [cyan]proxy-trace summary --baseline known.json --fail-on warning[/cyan]

You can also set `select`, `ignore` and `baseline` in `\\[tool.proxy-trace]` of a pyproject.toml.
"""

_FAILED: Final = 1


class SummaryFormat(str, Enum):
    """The values of `--format`."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


class FailOn(str, Enum):
    """The values of `--fail-on`."""

    ERROR = "error"
    WARNING = "warning"


def summary(
    run: RunArgument = None,
    step: StepOption = None,
    stage: StageOption = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="GOOD_RUN",
            help="Report what this good run of the same script did and RUN did not, values aside.",
            show_default=False,
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            metavar="CODE",
            help="Only findings with this code or glob; separate several with commas.",
            show_default=False,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="CODE",
            help="No findings with this code or glob; separate several with commas.",
            show_default=False,
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="FILE", help="Leave out the findings in FILE.", show_default=False),
    ] = None,
    write_baseline: Annotated[
        Path | None,
        typer.Option(
            "--write-baseline",
            metavar="FILE",
            help="Write the errors and warnings to FILE, for --baseline.",
            show_default=False,
        ),
    ] = None,
    fail_on: Annotated[
        FailOn | None,
        typer.Option(
            "--fail-on",
            metavar="error|warning",
            help="Exit with 1 if there is a finding of at least this severity.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        SummaryFormat,
        typer.Option(
            "--format",
            metavar="text|json|sarif|github",
            help="Text, JSON, or the findings for code scanning or a GitHub workflow.",
        ),
    ] = SummaryFormat.TEXT,
    rank: RankOption = None,
    jobs: JobsOption = None,
) -> None:
    """Summarize a run; the text of `--help` is `SUMMARY_HELP`."""
    from proxy_trace.checks.all_checks import all_checks, all_rules
    from proxy_trace.checks.choice import read_choice
    from proxy_trace.reading.selection import Period, StepRange
    from proxy_trace.reading.workers import Workers, count_jobs
    from proxy_trace.summary.run_summary import summarize
    from proxy_trace.terminal.progress import progress_bar

    period = None
    if step is not None or stage:
        period = Period(StepRange.parse(step) if step is not None else None, stage or ())
    checks = all_checks()
    rules = all_rules(checks)
    choice = read_choice(rules, _codes(select), _codes(ignore), baseline)
    if write_baseline is not None:
        choice = choice.with_known()  # Else the new file would lack known findings.
    trace = open_run(run, rank)
    good = open_run(against, rank) if against is not None else None
    size = sum(file.size_bytes() for file in trace.files)
    if good is not None:  # Both are read for the comparison, then this one again.
        size += size + sum(file.size_bytes() for file in good.files)
    with progress_bar(size, "reading") as on_progress, Workers(count_jobs(jobs, size), on_progress) as workers:
        result = summarize(trace, workers, period, checks, choice, good)
    if write_baseline is not None:
        _write_baseline(write_baseline, result)
    _print(result, rules, output, tables_of_all=rank is not None)
    if fail_on is not None and any(_is_as_grave(finding, fail_on) for finding in result.findings):
        raise typer.Exit(_FAILED)


def _codes(given: list[str] | None) -> list[str] | None:
    """The codes and globs given, with commas split."""
    return [code.strip() for each in given for code in each.split(",") if code.strip()] if given else None


def _is_as_grave(finding: Finding, fail_on: FailOn) -> bool:
    from proxy_trace.checks.finding import ERROR, WARNING

    return finding.severity == ERROR or (fail_on is FailOn.WARNING and finding.severity == WARNING)


def _write_baseline(path: Path, result: Summary) -> None:
    from proxy_trace.checks.choice import baseline_of, is_baseline
    from proxy_trace.checks.finding import NOTE
    from proxy_trace.errors import BaselineExistsError
    from proxy_trace.export.output import whole_or_nothing
    from proxy_trace.terminal.units import format_count

    told = [finding for finding in result.findings if finding.severity != NOTE]
    if path.exists() and not is_baseline(path):
        raise BaselineExistsError(path)
    with whole_or_nothing(path, force=True) as aside:
        aside.write_bytes(baseline_of(told))
    print_note(f"{format_count(len(told), 'finding')} written to {path}")


def _print(result: Summary, rules: Mapping[str, Rule], output: SummaryFormat, *, tables_of_all: bool) -> None:
    from proxy_trace.summary.github_annotations import annotation_lines
    from proxy_trace.summary.sarif import sarif_log
    from proxy_trace.summary.summary_text import summary_lines
    from proxy_trace.terminal.colour import Palette
    from proxy_trace.terminal.line_width import output_width

    if output is SummaryFormat.JSON:
        print_json([result], indented=True)
    elif output is SummaryFormat.SARIF:
        print_json([sarif_log(result, rules)], indented=True)
    elif output is SummaryFormat.GITHUB:
        print_lines(annotation_lines(result))
    else:
        palette = Palette.for_stream(sys.stdout)
        width = output_width()
        print_lines(summary_lines(result, palette, rules=rules, tables_of_all=tables_of_all, width=width))
