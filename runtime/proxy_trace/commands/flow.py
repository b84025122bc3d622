"""The command `proxy-trace flow`."""

from __future__ import annotations

import heapq
import sys
from itertools import islice
from pathlib import Path  # noqa: TC003  typer looks the types of arguments up.
from typing import TYPE_CHECKING, Annotated, Final

import typer

from proxy_trace.commands.options import (
    DEFAULT_RUN,
    Format,
    FormatOption,
    ModuleOption,
    RankOption,
    StageOption,
    StepOption,
    open_run,
    print_json,
    print_lines,
    print_note,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy_trace.flow.flow_steps import FlowSighting
    from proxy_trace.flow.flow_text import FlowRow
    from proxy_trace.reading.names import Names
    from proxy_trace.reading.trace import Trace, TraceFile
    from proxy_trace.terminal.colour import Palette

_DIFFERS: Final = 1
_MOST_RUNS: Final = 2

FLOW_HELP: Final = """
Show which way a run went: how each condition in the model's code evaluated, and how often each loop ran.

With two runs, show the first condition or loop at which they diverge, and what each run recorded before it.

A run has flow steps if its model was proxied with [cyan]flow=True[/cyan] ([cyan]instrument --flow[/cyan]). Otherwise \
a trace at level DEBUG still has the conditions on tensors, with line and outcome. It does not say whether they \
were an if or a while, and has no conditions on other values.

[bold]Examples[/bold]

  [cyan]proxy-trace flow --step 0[/cyan]
  [cyan]proxy-trace flow --module 'model.encoder*' --limit 20[/cyan]
  [cyan]proxy-trace flow yesterday/ today/[/cyan]
  [cyan]proxy-trace flow --format json | jq 'select(.construct == "while")'[/cyan]

[bold]Exit codes[/bold]

  0    done; with two runs: they went the same way
  1    two runs diverge
  2    wrong usage, no trace, or two runs and one of them without flow steps
"""


def flow(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN [OTHER]]",
            help=f"Run directories, .jsonl files of runs, or logdirs (their newest runs). Default: ./{DEFAULT_RUN}",
            show_default=False,
        ),
    ] = None,
    module: ModuleOption = None,
    step: StepOption = None,
    stage: StageOption = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-l", metavar="N", min=1, help="Stop after N flow steps.", show_default=False),
    ] = None,
    output: FormatOption = Format.TEXT,
    rank: RankOption = None,
) -> None:
    """Show conditions and loops; the text of `--help` is `FLOW_HELP`."""
    from proxy_trace.terminal.colour import Palette

    given: list[Path | None] = [*runs] if runs else [None]
    if len(given) > _MOST_RUNS:
        raise typer.BadParameter("give one RUN, or two to compare", param_hint="'[RUN [OTHER]]'")
    is_chosen = _chooser(module, step, stage)
    traces = [open_run(run, rank) for run in given]
    palette = Palette.for_stream(sys.stdout)
    if len(traces) == _MOST_RUNS:
        if limit is not None:
            raise typer.BadParameter(
                "--limit applies to a single run; for two runs, only the first difference is shown."
            )
        _compare(traces, is_chosen, output, palette)
        return
    rows = islice(_rows(traces[0], is_chosen), limit)
    if output is Format.JSON:
        print_json(row._asdict() for row in rows)
        return
    from proxy_trace.flow.flow_text import flow_lines

    print_lines(flow_lines(rows, palette, with_rank=len(traces[0].files) > 1))


def _compare(
    traces: list[Trace], is_chosen: Callable[[FlowSighting, Names], bool], output: Format, palette: Palette
) -> None:
    from proxy_trace.flow.flow_parting import compare_flow
    from proxy_trace.flow.flow_text import parting_lines

    found = compare_flow(traces[0], traces[1], is_chosen)
    if output is Format.JSON:
        print_json([{"agrees": found.agrees, "steps": found.steps, "partings": found.partings}], indented=True)
    else:
        print_lines(parting_lines(found, palette))
    if not found.agrees:
        raise typer.Exit(_DIFFERS)


def _chooser(
    module: list[str] | None, step: str | None, stage: list[str] | None
) -> Callable[[FlowSighting, Names], bool]:
    from proxy_trace.reading.selection import GlobMatcher, StepRange, stage_matcher

    steps = StepRange.parse(step) if step is not None else None
    is_stage = stage_matcher(stage or ())
    is_module = GlobMatcher(module) if module else None

    def is_chosen(seen: FlowSighting, names: Names) -> bool:
        event = seen.event
        return (
            (steps is None or steps.has(event.step))
            and (is_stage is None or is_stage(event.stage))
            and (is_module is None or is_module(names.module_name(event.module)))
        )

    return is_chosen


def _rows(trace: Trace, is_chosen: Callable[[FlowSighting, Names], bool]) -> Iterator[FlowRow]:
    """The chosen flow steps of all files, by time. Prints a note if only conditions on tensors were recorded."""
    from proxy_trace.flow.flow_steps import has_flow_steps

    from_reads = not any(has_flow_steps(file.read()) for file in trace.files)
    began_us = min(file.started_us() for file in trace.files)
    streams = [_rows_of(file, is_chosen, file.started_us() - began_us, from_reads=from_reads) for file in trace.files]
    is_empty = True
    for row in heapq.merge(*streams, key=lambda row: row.time_us):
        if is_empty and from_reads:
            print_note("only conditions on tensors are known, and not their kind: flow=True was not set")
        is_empty = False
        yield row
    if is_empty:
        print_note("no flow steps were recorded, or none that these options select; a model has them with flow=True")


def _rows_of(
    file: TraceFile, is_chosen: Callable[[FlowSighting, Names], bool], offset_us: int, *, from_reads: bool
) -> Iterator[FlowRow]:
    from proxy_trace.flow.flow_steps import flow_steps
    from proxy_trace.flow.flow_text import FlowRow

    names = file.names()
    latest_us = 0
    for seen in flow_steps(file.read(), names, from_reads=from_reads):
        event, step = seen.event, seen.step
        latest_us = max(latest_us, event.time_us)
        if is_chosen(seen, names):
            ordinal = getattr(event, "ordinal", 0)
            yield FlowRow(
                latest_us + offset_us,
                event.step,
                event.stage,
                names.module_name(event.module),
                file.run.rank,
                event.thread,
                step.construct,
                step.name,
                seen.text,
                step.value,
                step.iterations,
                ordinal,
                step.file,
                step.function,
                step.line,
            )
