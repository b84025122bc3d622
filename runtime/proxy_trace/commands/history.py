"""The command `proxy-trace history`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from proxy_trace.commands.options import (
    DEFAULT_RUN,
    Format,
    FormatOption,
    KindOption,
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
    from proxy_trace.reading.names import Names

HISTORY_HELP: Final = """
Follow one variable through a run: every iteration, with step, stage, line and shape, \
what created it and what used it; for a parameter, every gradient and update.

WHAT is a name, or a place in the script where a tensor is created:

  [cyan]model.fc1.weight[/cyan]       a parameter or buffer; globs too: 'model.fc*.bias'
  [cyan]model.fc1.weight.grad[/cyan]  only its gradients
  [cyan]model.fc1[/cyan]              the calls of a module
  [cyan]net.py:14[/cyan]              whatever that line of the script creates
  [cyan]net.py:14:relu[/cyan]         only by calls of relu
  [cyan]net.py:14:relu:1[/cyan]       only by the second of them in each call of the module

Results of torch functions are recorded at level DEBUG, modules at INFO.

[bold]Examples[/bold]

  [cyan]proxy-trace history model.fc1.weight --step 100-110[/cyan]
  [cyan]proxy-trace history train.py:41 --stage validation[/cyan]
  [cyan]proxy-trace history proxy_trace 'model.fc*' --format json | jq .uses[/cyan]
"""


_ARGUMENTS: Final = "[RUN] WHAT"


class HistoryCommand(TyperCommand):
    """A command with an optional RUN before WHAT. The parser sees one list; the usage line shows both."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments in the usage line."""
        pieces: list[str] = super().collect_usage_pieces(ctx)
        return [*pieces[:-1], _ARGUMENTS]


def history(
    run_and_what: Annotated[
        list[str],
        typer.Argument(
            metavar=_ARGUMENTS,
            help=f"RUN as for the other commands (default: ./{DEFAULT_RUN}); WHAT is a name or FILE:LINE, see above.",
            show_default=False,
        ),
    ],
    kind: KindOption = None,
    module: ModuleOption = None,
    step: StepOption = None,
    stage: StageOption = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-l", metavar="N", min=1, help="Stop after N entries.", show_default=False),
    ] = None,
    output: FormatOption = Format.TEXT,
    rank: RankOption = None,
) -> None:
    """Show the history of a variable; the text of `--help` is `HISTORY_HELP`."""
    from itertools import chain, islice

    from proxy_trace.history.history_text import history_lines
    from proxy_trace.history.variable_history import follow
    from proxy_trace.reading.selection import GlobMatcher, StepRange, stage_matcher, wanted_kinds
    from proxy_trace.terminal.colour import Palette

    run, what = _read_arguments(run_and_what)
    kinds = wanted_kinds(kind or ())
    steps = StepRange.parse(step) if step is not None else None
    is_stage = stage_matcher(stage or ())
    is_module = GlobMatcher(module) if module else None
    trace = open_run(run, rank)
    names = [file.names() for file in trace.files]
    chosen = (
        entry
        for entry in follow(trace, what, names)
        if (not kinds or entry.kind in kinds)
        and (steps is None or (entry.stage and steps.has(entry.step)))
        and (is_stage is None or is_stage(entry.stage))
        and (is_module is None or is_module(entry.module))
    )
    first = list(islice(chosen, 1))
    if not first:
        is_chosen = bool(kind or module or step or stage) or rank is not None
        print_note(f"nothing of '{what}' was recorded{_why_nothing(what, names, is_chosen=is_chosen)}")
    entries = islice(chain(first, chosen), limit)
    if output is Format.JSON:
        print_json(entries)
    else:
        print_lines(history_lines(entries, Palette.for_stream(sys.stdout), with_rank=len(trace.files) > 1))


def _read_arguments(run_and_what: list[str]) -> tuple[Path | None, str]:
    """RUN (None if not given), and WHAT.

    Raises:
        typer.BadParameter: if there are more arguments, or their order is wrong.
    """
    *given, what = run_and_what
    if len(given) > 1:
        raise typer.BadParameter("give at most one RUN, and one WHAT", param_hint=f"'{_ARGUMENTS}'")
    if given and Path(what).exists() and not Path(given[0]).exists():
        raise typer.BadParameter(f"RUN comes first: {what} {given[0]}", param_hint=f"'{_ARGUMENTS}'")
    return Path(given[0]) if given else None, what


def _why_nothing(what: str, names: list[Names], *, is_chosen: bool) -> str:
    """Why nothing was found, to append to that message; "" if unknown."""
    from proxy_trace.tensors.identity import are_calls_recorded

    if is_chosen:
        return " that these options select"
    if ":" in what and not are_calls_recorded(names):
        return "; calls of torch functions are recorded at level DEBUG only"
    return ""
