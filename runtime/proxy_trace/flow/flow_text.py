"""Flow steps, and where two runs diverge, as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from proxy_trace.terminal.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy_trace.flow.flow_parting import FlowComparison, Parting, Side
    from proxy_trace.terminal.colour import Palette


class FlowRow(NamedTuple):
    """A flow step to be shown: the fields of `FlowStep`, and its position in the run."""

    time_us: int
    step: int
    stage: str
    module: str
    rank: int
    thread: int
    construct: str
    name: str
    text: str
    value: bool | None
    iterations: int | None
    ordinal: int
    file: str
    function: str
    line: int


def flow_lines(rows: Iterable[FlowRow], palette: Palette, *, with_rank: bool) -> Iterator[str]:
    """A header, and a line for each flow step.

    Args:
        rows: the steps.
        palette: for a terminal.
        with_rank: whether to show ranks.
    """
    rank_title = "rank  " if with_rank else ""
    yield palette.paint(f"{rank_title}{'step':>6}  {'outcome':<14}  {'what':<48}  where", "dim")
    for row in rows:
        rank = f"{row.rank:>4}  " if with_rank else ""
        what = f"{row.construct} {row.text}".lstrip() if row.construct else f"the truth of {row.text}"
        colour = "green" if row.value else "yellow" if row.value is False else "cyan"
        outcome = palette.paint(f"{outcome_text(row.value, row.iterations):<14}", colour)
        inside = f" in a call of {row.module}" if row.module else ""
        where = palette.paint(f"{row.file}:{row.line} in {row.function}{inside}", "dim")
        yield f"{rank}{row.step:>6}  {outcome}  {what:<48}  {where}"


def outcome_text(value: bool | None, iterations: int | None) -> str:
    """The outcome of a condition, or the iterations of a loop."""
    if iterations is not None:
        return format_count(iterations, "iteration")
    return "unknown" if value is None else str(value)


def parting_lines(found: FlowComparison, palette: Palette) -> Iterator[str]:
    """The result of comparing two runs."""
    if found.agrees:
        yield f"Both went the same way in all {format_count(found.steps, 'flow step')}."
        return
    for parting in found.partings:
        yield from _parting_lines(parting, palette)


def _parting_lines(parting: Parting, palette: Palette) -> Iterator[str]:
    thread = f", thread {parting.thread}" if parting.thread else ""
    same = format_count(parting.same, "flow step")
    yield palette.paint(f"Rank {parting.rank}{thread}: they part after {same} that are the same.", "bold")
    for which, side in (("first", parting.first), ("second", parting.second)):
        yield ""
        if side is None:
            yield f"  {which} run: no further flow step"
            continue
        yield f"  {which} run: {palette.paint(_step_text(side), 'red')}"
        inside = f", in a call of {side.module}" if side.module else ""
        yield f"    at {side.place} in {side.function}{inside}, optimizer step {side.optimizer_step}"
        if side.made_from:
            yield f"    made from {', '.join(side.made_from)}"
        if side.led_there:
            yield "    recorded since the flow step before:"
        for each in side.led_there:
            place = f"  {each.place}" if each.place else ""
            yield f"      {each.kind:<14}  {each.details}{palette.paint(place, 'dim')}"


def _step_text(side: Side) -> str:
    return f"{side.construct} {side.text}: {outcome_text(side.value, side.iterations)}"
