"""The command `proxy-trace watch`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from proxy_trace.commands.options import DEFAULT_RUN, RunArgument, print_lines

if TYPE_CHECKING:
    from proxy_trace.checks.finding import Finding
    from proxy_trace.watch.growing_run import GrowingRun

WATCH_HELP: Final = """
Watch a run in progress: its steps, its loss, its learning rates, and what looks wrong so far.

The command follows the run until it ends. On a terminal the screen is redrawn each time. Elsewhere, as in a log, it \
prints a line each time, and one for each new finding. An early finding may no longer hold at the end: \
[cyan]proxy-trace summary[/cyan] has the final result.

[bold]Examples[/bold]

  [cyan]proxy-trace watch[/cyan]
  [cyan]proxy-trace watch proxy_trace --every 10[/cyan]
  [cyan]proxy-trace watch > watch.log &[/cyan]
"""


def watch(
    run: RunArgument = None,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.1, help="How often to look.")] = 1.0,
) -> None:
    """Watch a run; the text of `--help` is `WATCH_HELP`."""
    from proxy_trace.checks.all_checks import all_rules
    from proxy_trace.checks.choice import read_choice
    from proxy_trace.errors import NoRunGivenError
    from proxy_trace.watch.growing_run import GrowingRun

    default = Path(DEFAULT_RUN)
    if run is None and not default.exists():
        raise NoRunGivenError(DEFAULT_RUN)
    growing = GrowingRun(run or default, read_choice(all_rules(), None, None, None))
    if sys.stdout.isatty():
        _show(growing, every)
    else:
        _print(growing, every)


def _show(growing: GrowingRun, every: float) -> None:
    """Redraw the whole screen until the run ends."""
    from rich.live import Live
    from rich.text import Text

    from proxy_trace.terminal.colour import Palette, for_terminal
    from proxy_trace.watch.watch_text import screen_lines

    palette = Palette.for_stream(sys.stdout)
    with Live(auto_refresh=False) as live:
        while True:
            began = time.monotonic()
            snapshot = growing.read_on()
            lines = map(for_terminal, screen_lines(snapshot, palette))
            live.update(Text.from_ansi("\n".join(lines)), refresh=True)
            if snapshot.end:
                return
            time.sleep(_pause(every, began))


def _print(growing: GrowingRun, every: float) -> None:
    """Print what is new, line by line."""
    from proxy_trace.terminal.colour import Palette
    from proxy_trace.watch.watch_text import end_line, finding_line, new_findings, progress_line

    palette = Palette.for_stream(sys.stdout)
    found: list[Finding] = []
    last_step = -1
    while True:
        began = time.monotonic()
        snapshot = growing.read_on()
        lines = [finding_line(finding, palette) for finding in new_findings(found, snapshot.findings)]
        if snapshot.numbers.step != last_step:
            lines.append(progress_line(snapshot))
        if snapshot.end:
            lines.append(end_line(snapshot))
        print_lines(lines)
        if snapshot.end:
            return
        found, last_step = snapshot.findings, snapshot.numbers.step
        time.sleep(_pause(every, began))


def _pause(every: float, began: float) -> float:
    """How long to wait. Reading takes at most a tenth of the time, to leave the processor to the training."""
    took = time.monotonic() - began
    return max(every - took, 9 * took)
