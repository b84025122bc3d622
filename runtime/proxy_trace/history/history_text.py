"""The history of a variable as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.terminal.units import format_count, format_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy_trace.history.variable_history import HistoryEntry, Use
    from proxy_trace.terminal.colour import Palette
    from proxy_wrapper.events import Statistics

_SHOWN_USES: Final = 4
_OF_STATE: Final = frozenset({"gradient", "update", "parameter", "buffer", "optimizer_state", "non_finite"})
_HEADER: Final = f"{'time/s':>12}  {'step':>6}  {'stage':<10}  {'kind':<14}  what"


def history_lines(entries: Iterable[HistoryEntry], palette: Palette, *, with_rank: bool) -> Iterator[str]:
    """Two lines for each entry: what happened and where; then one for the uses of the tensor.

    Args:
        entries: the history.
        palette: for a terminal.
        with_rank: whether to show ranks.
    """
    yield palette.paint(f"{'rank':>4}  {_HEADER}" if with_rank else _HEADER, "dim")
    for entry in entries:
        rank = f"{entry.rank:>4}  " if with_rank else ""
        kind = palette.paint(f"{entry.kind:<14}", "red" if entry.kind == "non_finite" else "cyan")
        start = f"{rank}{entry.time_us / 1e6:>12.6f}  {entry.step:>6}  {entry.stage:<10}  "
        yield f"{start}{kind}  {entry.name}{_details(entry)}"
        indent = " " * (len(start) + 16)
        if entry.place is not None:
            is_inside = entry.kind not in _OF_STATE and entry.module not in ("", entry.name)
            of = f", in a call of {entry.module}" if is_inside else ""
            yield palette.paint(f"{indent}at {entry.place} in {entry.place.function}{of}", "dim")
        if entry.uses:
            yield f"{indent}-> {_uses(entry.uses, entry.more_uses)}"


def _details(entry: HistoryEntry) -> str:
    words = [entry.cause] if entry.cause else []
    if entry.is_same and entry.cause != "unchanged":
        words.append("same values")
    cause = f" ({', '.join(words)})" if words else ""
    if entry.kind in _OF_STATE and entry.kind != "non_finite":
        return f"{cause}: {_numbers(entry.statistics)}" if entry.statistics or entry.kind == "gradient" else cause
    if entry.kind == "non_finite":
        return f": {format_count(int(entry.value or 0), 'NaN or infinite element')} in its {entry.target}"
    if entry.kind == "optimizer_step":
        return ""
    took = f"({', '.join(entry.inputs)})"
    made = f" -> {', '.join(entry.types)}" if entry.types else "" if entry.value is None else f" = {entry.value}"
    return f"  {entry.target}{took}{made}{cause}"


def _uses(uses: list[Use], more: int) -> str:
    shown = ", ".join(f"{use.by}{f' at {use.place}' if use.place else ''}" for use in uses[:_SHOWN_USES])
    left = len(uses) - _SHOWN_USES + more
    return f"{shown}, and {left} more" if left > 0 else shown


def _numbers(statistics: Statistics | None) -> str:
    if statistics is None:
        return "none"
    words = (
        f"min {format_number(statistics.minimum)}  max {format_number(statistics.maximum)}  "
        f"norm {format_number(statistics.norm)}"
    )
    return f"{words}  non-finite {statistics.nonfinite:,}" if statistics.nonfinite else words
