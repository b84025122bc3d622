"""Shows a run in progress as text: the whole state on a terminal, news in a pipe."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.finding import ERROR, NOTE, WARNING
from proxy_trace.terminal.units import format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from proxy_trace.checks.finding import Finding
    from proxy_trace.terminal.colour import Palette
    from proxy_trace.watch.growing_run import Snapshot

_BARS: Final = "▁▂▃▄▅▆▇█"
_SHOWN: Final = 12
_COLOURS: Final = {ERROR: "red", WARNING: "yellow", NOTE: "cyan"}
_ENDS: Final = {
    "exit": "The run has ended.",
    "unproxied": "The program has stopped tracing.",
    "killed": "The process is gone, and did not say that it ended: it was killed.",
}


def screen_lines(snapshot: Snapshot, palette: Palette) -> Iterator[str]:
    """The whole state, for a terminal that redraws it."""
    run, numbers = snapshot.run, snapshot.numbers
    yield palette.paint(shlex.join([run.script, *run.argv]), "bold")
    processes = f", {snapshot.processes} processes" if snapshot.processes > 1 else ""
    yield f"  run   {run.run}, {format_duration(snapshot.duration_us)}{processes}"
    yield f"  step  {numbers.step:,}"
    for place, values in numbers.losses.items():
        yield f"  loss  {_number(values[-1])}  {_bars(values)}  {palette.paint(place, 'dim')}"
    for name, rates in numbers.rates.items():
        yield f"  rate  {_rates(rates)}  {palette.paint(name, 'dim')}"
    yield ""
    told = [finding for finding in snapshot.findings if finding.severity != NOTE]
    if not told:
        yield palette.paint("Nothing looks wrong so far.", "green")
    for finding in told[:_SHOWN]:
        yield finding_line(finding, palette)
    if len(told) > _SHOWN:
        yield f"... and {len(told) - _SHOWN:,} more"
    if snapshot.end:
        yield ""
        yield end_line(snapshot)


def progress_line(snapshot: Snapshot) -> str:
    """The progress, in one line."""
    numbers = snapshot.numbers
    words = [f"{format_duration(snapshot.duration_us)}: {format_count(numbers.step, 'step')}"]
    words += [f"loss {_number(values[-1])} ({place})" for place, values in numbers.losses.items()]
    words += [f"rate {_rates(rates)} ({name})" for name, rates in numbers.rates.items()]
    return ", ".join(words)


def new_findings(before: Iterable[Finding], now: Iterable[Finding]) -> list[Finding]:
    """The findings in `now` that are not in `before`, without notes."""
    known = {(finding.code, finding.name) for finding in before}
    return [each for each in now if each.severity != NOTE and (each.code, each.name) not in known]


def finding_line(finding: Finding, palette: Palette) -> str:
    """A finding in one line."""
    head = palette.paint(f"{finding.severity}[{finding.code}]", _COLOURS[finding.severity])
    step = f", at step {finding.step:,}" if finding.step is not None else ""
    place = f", {finding.place}" if finding.place else ""
    return f"{head} {finding.name}: {finding.reason}{step}{place}"


def end_line(snapshot: Snapshot) -> str:
    """How the run ended."""
    reason, _, error = snapshot.end.partition(" ")
    if reason == "exception":
        return f"The run has ended by {error or 'an exception'}."
    return _ENDS.get(reason, f"The run has ended: {snapshot.end}.")


def _number(value: float) -> str:
    return f"{value:.6g}"


def _rates(rates: Sequence[float]) -> str:
    return ", ".join(dict.fromkeys(map(_number, rates))) or "none"


def _bars(values: Iterable[float]) -> str:
    """A line of bars, the highest for the largest value; a cross for a non-finite value."""
    values = list(values)
    finite = [value for value in values if math.isfinite(value)]
    lowest, highest = min(finite, default=0.0), max(finite, default=0.0)
    span = (highest - lowest) or 1.0
    return "".join(
        _BARS[min(int((value - lowest) / span * len(_BARS)), len(_BARS) - 1)] if math.isfinite(value) else "x"
        for value in values
    )
