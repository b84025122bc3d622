"""Shows the comparison of ranks as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.states.differences_text import how_often, values_apart
from proxy_trace.terminal.table import format_table
from proxy_trace.terminal.units import format_count, format_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_trace.comparison.ranks import Comparison
    from proxy_trace.states.differences import GroupedDifference
    from proxy_trace.terminal.colour import Palette

_SHOWN: Final = 20


def ranks_lines(found: Comparison, palette: Palette) -> Iterator[str]:
    """The lines of the report: what was compared, what differs, and what is missing in some ranks."""
    ranks = [each.rank for each in found.ranks]
    yield palette.paint(f"run {found.run}", "bold")
    yield f"  ranks       {format_ranks(ranks)} of {found.world_size}"
    yield f"  compared    {format_count(found.parameters, 'parameter')} after {format_count(found.steps, 'step')}"
    if found.own_parts:
        words = "parameter is" if found.own_parts == 1 else "parameters are"
        yield f"  left out    {found.own_parts:,} {words} sharded, or in one rank only"
    if found.agrees:
        yield ""
        yield palette.paint(_agreement(found), "green" if found.parameters and found.steps else "yellow")
    yield from _section("Parameters that drifted apart", "red", found.drifted, palette)
    is_known = all(each.same_start is False for each in found.never_agreed)
    why = " (initialised differently, or split by hand)" if is_known else ""
    yield from _section(f"Parameters that never agreed{why}", "red", found.never_agreed, palette)
    yield from _section("Gradients that differ, of parameters that agree", "yellow", found.gradients, palette)
    yield from _section("Buffers that differ (as those of batch norm may)", "cyan", found.buffers, palette)
    yield from _rank_lines(found, palette)


def _agreement(found: Comparison) -> str:
    if not found.parameters:
        which = "is in several ranks in the same shape and place" if found.own_parts else "was asked for, only buffers"
        return f"No parameter was compared: none {which}."
    of = "The parameter agrees" if found.parameters == 1 else f"All {found.parameters:,} parameters agree"
    if not found.steps:
        return f"{of} between the ranks at the start; no step was compared, as none came to the end of one."
    return f"{of} between the ranks after each of the {format_count(found.steps, 'step')} compared."


def _section(title: str, colour: str, differences: Sequence[GroupedDifference], palette: Palette) -> Iterator[str]:
    if not differences:
        return
    yield ""
    yield palette.paint(f"{title} ({len(differences)})", colour)
    rows = [_row(difference) for difference in differences[:_SHOWN]]
    header = ("from step", "name", "ranks", "differs", "values then", "")
    for line in format_table(header, rows, "rlllll"):
        yield f"  {line}"
    if len(differences) > _SHOWN:
        yield palette.paint(f"  and {len(differences) - _SHOWN} more; --format json has all.", "dim")


def _row(difference: GroupedDifference) -> tuple[str, ...]:
    groups = " | ".join(format_ranks(ranks) for ranks in difference.groups)
    return (
        str(difference.first_step),
        difference.name,
        groups,
        how_often(difference),
        values_apart(difference.values),
        _cause(difference),
    )


def _cause(difference: GroupedDifference) -> str:
    if difference.kind != "parameter":
        return ""
    step = difference.gradient_step
    words = "its gradients agree" if step is None else f"its gradient differs from step {step}"
    if difference.agreed:
        return words
    start = {True: "same at the start", False: "different at the start", None: "values at the start are unknown"}
    return f"{start[difference.same_start]}; {words}"


def _rank_lines(found: Comparison, palette: Palette) -> Iterator[str]:
    lines = []
    furthest = max((each.last_step for each in found.ranks), default=-1)
    for each in found.ranks:
        if each.last_step < furthest:
            came = f"ended after step {each.last_step}" if each.last_step >= 0 else "ended before its first step"
            how = f" ({each.end})" if each.end else " (killed, or still running)"
            lines.append(f"rank {each.rank}  {came}, others after step {furthest}{how}")
        if each.missing_steps:
            lines.append(f"rank {each.rank}  lacks {format_count(each.missing_steps, 'step')} that others have")
    if found.not_asked:
        lines.append(f"{format_ranks(found.not_asked)} left out, as `--ranks` says")
    if found.absent:
        lines.append(f"{format_ranks(found.absent)} left no trace")
    lines += [f"not compared: {path}, a further process of its rank" for path in found.left_out]
    if lines:
        yield ""
        yield palette.paint("Ranks that lack something", "yellow")
        yield from (f"  {line}" for line in lines)
