"""Shows the list of runs as text."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.finding import ERROR, NOTE, WARNING
from proxy_trace.terminal.table import format_table, lines_of_a_row
from proxy_trace.terminal.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_trace.summary.run_list import ListedRun
    from proxy_trace.terminal.colour import Palette

_HEADER: Final = ("run", "started (UTC)", "script", "steps", "findings", "gravest")
_SIDES: Final = "lllrll"
_MINUTE: Final = len("2026-11-21 08:09")
_SHOWN_CODES: Final = 2
_NOT_READ: Final = "-"
_COLOURS: Final = {ERROR: "red", WARNING: "yellow"}


def run_list_lines(runs: Sequence[ListedRun], left_out: int, palette: Palette, width: int | None) -> Iterator[str]:
    """A line per run, and the number of older ones left out."""
    rows = [_cells(run) for run in runs]
    in_header = lines_of_a_row(_HEADER, rows, width)
    for number, line in enumerate(format_table(_HEADER, rows, _SIDES, width)):
        if number < in_header:
            yield palette.paint(line, "dim")
            continue
        run = runs[number // in_header - 1]
        colour = next((each for severity, each in _COLOURS.items() if (run.findings or {}).get(severity)), "")
        yield palette.paint(line, colour) if colour else line
    if left_out:
        yield palette.paint(f"{format_count(left_out, 'older run')} left out; --limit N shows N", "dim")


def _cells(run: ListedRun) -> list[str]:
    return [
        run.run,
        run.started.replace("T", " ")[:_MINUTE] or _NOT_READ,
        " ".join([run.script.rpartition("/")[2], *map(shlex.quote, run.argv)]) or _NOT_READ,
        _NOT_READ if run.steps is None else f"{run.steps:,}",
        _counts(run),
        run.problem or ", ".join(run.gravest[:_SHOWN_CODES]) + _more(len(run.gravest) - _SHOWN_CODES),
    ]


def _counts(run: ListedRun) -> str:
    """The number of findings of each severity: "1 error, 2 notes"."""
    if run.problem:
        return "cannot be read"
    if run.findings is None:
        return _NOT_READ
    found = [format_count(run.findings[each], each) for each in (ERROR, WARNING, NOTE) if run.findings.get(each)]
    return ", ".join(found) or "none"


def _more(count: int) -> str:
    return f", {count:,} more" if count > 0 else ""
