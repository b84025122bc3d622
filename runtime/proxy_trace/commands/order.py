"""The command `proxy-trace order`."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from proxy_trace.commands.options import (
    Format,
    FormatOption,
    ModuleOption,
    RankOption,
    RunArgument,
    StageOption,
    StepOption,
    open_run,
    print_json,
    print_lines,
)

ORDER_HELP: Final = """
Say in which order a call of the model ran its modules, and first used its parameters.

FSDP's tracer finds the same, to decide which parameters are gathered together. Here it comes from a call that has \
happened, so models that refuse symbolic tracing have an order too. Parameters are known at level DEBUG only.

The first call of the model is told, or the first one in --step. As FSDP has it, a module that torch.nn defines is one \
thing, which uses all its parameters when it is called; nn.Sequential is looked into.

[bold]Examples[/bold]

  [cyan]proxy-trace order[/cyan]
  [cyan]proxy-trace order --step 100 --stage validation[/cyan]
  [cyan]proxy-trace order --module 'model.encoder.layers.0' --every-call[/cyan]
  [cyan]proxy-trace order --format json | jq -r '.param_forward_order\\[]'[/cyan]
"""


def order(
    run: RunArgument = None,
    module: ModuleOption = None,
    step: StepOption = None,
    stage: StageOption = None,
    every_call: Annotated[
        bool,
        typer.Option(
            "--every-call",
            metavar="",
            help="Look into modules of torch.nn too. Their parameters are those seen in use.",
        ),
    ] = False,
    output: FormatOption = Format.TEXT,
    rank: RankOption = None,
) -> None:
    """Say what runs when; the text of `--help` is `ORDER_HELP`."""
    from proxy_trace.order.order_text import order_lines, order_record
    from proxy_trace.order.run_order import find_order
    from proxy_trace.reading.selection import GlobMatcher, Period, StepRange
    from proxy_trace.terminal.colour import Palette

    period = Period(StepRange.parse(step) if step is not None else None, stage or ())
    is_module = GlobMatcher(module) if module else None
    found = find_order(open_run(run, rank), period, is_module, None if every_call else "fsdp")
    if output is Format.JSON:
        print_json([order_record(found)], indented=True)
    else:
        print_lines(order_lines(found, Palette.for_stream(sys.stdout)))
