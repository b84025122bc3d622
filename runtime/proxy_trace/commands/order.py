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
Show in which order one call of the model ran its modules and first used its parameters.

This is the order by which FSDP decides which parameters to gather together. Here it comes from a call that actually \
happened, so models that refuse symbolic tracing have an order too. Parameters are only known at level DEBUG.

The first call of the model is shown, or the first one in --step. As in FSDP, a module that torch.nn defines is a unit \
that uses all its parameters when it is called, except nn.Sequential, whose modules are listed.

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
            help="List the calls inside modules of torch.nn too, with the parameters that they were seen to use.",
        ),
    ] = False,
    output: FormatOption = Format.TEXT,
    rank: RankOption = None,
) -> None:
    """Show an execution order; the text of `--help` is `ORDER_HELP`."""
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
