"""Shows the comparison of two runs by records as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.comparison.records.parting import CALL, CONFIGURATION, MORE, ORDER
from proxy_trace.comparison.runs_text import by_norms, head_lines
from proxy_trace.terminal.table import format_table
from proxy_trace.terminal.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_trace.comparison.records.compare_records import RecordComparison
    from proxy_trace.comparison.records.distances import Series
    from proxy_trace.comparison.records.parting import Parting, SeenRecord
    from proxy_trace.terminal.colour import Palette

_SHOWN: Final = 20
_COLUMNS: Final = 6
_NAMES: Final = ("first", "second")

KIND_WORDS: Final = {
    CONFIGURATION: "another setting",
    CALL: "another call",
    ORDER: "another order",
    MORE: "one more call or record",
    "shape": "another shape",
    "tensor": "another tensor",
    "value": "another value",
    "circumstance": "another circumstance",
}


def record_lines(found: RecordComparison, palette: Palette) -> Iterator[str]:
    """The lines of the report: the two runs, where they first part, other partings, and how far they diverge."""
    yield from head_lines(found.runs, found.ranks, palette)
    yield f"  compared   {format_count(found.records, 'pair')} of records"
    if found.by_statistics:
        yield f"  by norms   {by_norms(found.by_statistics)}"
    yield ""
    yield palette.paint(verdict(found), "red" if found.partings else "green")
    for parting in found.partings:
        if parting.kind == CONFIGURATION:
            yield f"  {setting_line(parting)}"
    others = [parting for parting in found.partings if parting.kind != CONFIGURATION]
    if others:
        yield ""
        yield from _first_lines(others[0], palette)
    if others[1:]:
        yield ""
        yield palette.paint("The first of other kinds", "bold")
        yield from _other_lines(others[1:], palette, with_rank=len(found.ranks) > 1)
    if found.series:
        yield ""
        yield from _series_lines(found.series, palette, with_rank=len(found.ranks) > 1)
    limits = limit_lines(found)
    if limits:
        yield ""
        yield palette.paint("How far they were compared", "yellow")
        yield from (f"  {line}" for line in limits)


def verdict(found: RecordComparison) -> str:
    """A sentence that says whether the runs part, and where first."""
    if not found.partings:
        return "The runs agree in every record compared."
    others = [parting for parting in found.partings if parting.kind != CONFIGURATION]
    if not others:
        return "The runs differ in torch's settings alone, and agree in every record compared."
    settings = "The runs differ in torch's settings. " if len(others) < len(found.partings) else ""
    return f"{settings}{'They' if settings else 'The runs'} part {where(others[0])}: {what(others[0])}."


def where(parting: Parting) -> str:
    """The step and the module of a parting, in words."""
    step = "before the first call" if parting.step < 0 else f"at step {parting.step:,}"
    return f"{step}, in {parting.module}" if parting.module else step


def what(parting: Parting) -> str:
    """The kind and the subject of a parting, in words."""
    words = KIND_WORDS[parting.kind]
    if parting.only_in is not None:
        return f"only the {_NAMES[parting.only_in]} run has {_record_words(parting)} here"
    if parting.kind == CALL:
        return f"{words} ({' | '.join(record.name for record in parting.records if record is not None)})"
    part = f", {parting.what}" if parting.what not in ("", "statistics", "value") else ""
    values = f" ({' | '.join(parting.values)})" if parting.values else ""
    return f"{words} of {_record_words(parting)}{part}{values}"


def setting_line(parting: Parting) -> str:
    """A torch setting that differs, with its values."""
    step = "" if parting.step <= 0 else f", from step {parting.step:,} on"
    return f"{parting.what}: {' | '.join(parting.values)}{step}"


def limit_lines(found: RecordComparison) -> list[str]:
    """What was not compared, and what was matched under different names."""
    lines = [f"matched by position: {first} | {second}" for first, second in found.renamed[:_SHOWN]]
    if len(found.renamed) > _SHOWN:
        lines.append(f"and {len(found.renamed) - _SHOWN:,} more with different names")
    for name, only in zip(_NAMES, found.only_in, strict=True):
        if only:
            more = f" and {len(only) - _SHOWN:,} more" if len(only) > _SHOWN else ""
            lines.append(f"only in the {name} run: {', '.join(only[:_SHOWN])}{more}")
    return lines + [f"not compared: {limit}" for limit in found.limits]


def _record_words(parting: Parting) -> str:
    number = parting.only_in if parting.only_in is not None else 0
    record = parting.records[number] or next(each for each in parting.records if each is not None)
    return f"{record.kind} {record.name}" if record.name != record.kind else record.kind


def _first_lines(parting: Parting, palette: Palette) -> Iterator[str]:
    """Both records of a parting, with their lines and origins."""
    for number, record in enumerate(parting.records):
        name = f"  {_NAMES[number]:<7}"
        if record is None:
            yield f"{name} has nothing more"
            continue
        note = ""
        if parting.only_in is not None and number != parting.only_in:
            note = palette.paint("  (what it does next)", "dim")
        yield f"{name} {place_of(record)}  {palette.paint(record.kind, 'cyan')}  {record.name}{note}"
        yield f"          {record.text}"
        if record.made_from:
            yield f"          from {'; '.join(record.made_from)}"


def place_of(record: SeenRecord) -> str:
    """The line of a record, with its function."""
    if record.place is None:
        return "(no place)"
    return f"{record.place} in {record.place.function}"


def _other_lines(partings: Sequence[Parting], palette: Palette, *, with_rank: bool) -> Iterator[str]:
    for parting in partings:
        rank = f", rank {parting.rank}" if with_rank else ""
        places = " | ".join("-" if each is None else str(each.place or "-") for each in parting.records)
        yield f"  {where(parting)}{rank}: {what(parting)}  {palette.paint(places, 'dim')}"


def _series_lines(series: Sequence[Series], palette: Palette, *, with_rank: bool) -> Iterator[str]:
    """How far modules diverge: a row per module, a column per span of steps."""
    yield palette.paint("How far apart (relative difference of norms)", "bold")
    spans = sorted({(each.first_step, each.last_step) for of_one in series for each in of_one.distances})
    shown = (
        spans
        if len(spans) <= _COLUMNS
        else [spans[round(i * (len(spans) - 1) / (_COLUMNS - 1))] for i in range(_COLUMNS)]
    )
    rows = []
    for each in series[:_SHOWN]:
        by_span = {(distance.first_step, distance.last_step): distance.largest for distance in each.distances}
        row = [each.module, each.kind, str(each.rank), step_words(each.first_step)]
        row += [distance_words(by_span.get(span)) for span in shown]
        rows.append(row)
    header = ["module", "what", "rank", "from step", *(span_words(*span) for span in shown)]
    sides = "llrr" + "r" * len(shown)
    if not with_rank:
        header, rows, sides = _without(header, 2), [_without(row, 2) for row in rows], sides[:2] + sides[3:]
    for number, line in enumerate(format_table(header, rows, sides)):
        yield "  " + (line if number else palette.paint(line, "dim"))
    if len(series) > _SHOWN:
        yield palette.paint(f"  and {len(series) - _SHOWN:,} more; --format json has all.", "dim")


def _without(row: list[str], column: int) -> list[str]:
    return row[:column] + row[column + 1 :]


def step_words(step: int) -> str:
    """A step; "start" for before the first call."""
    return "start" if step < 0 else str(step)


def span_words(first: int, last: int) -> str:
    """A span of steps."""
    return step_words(first) if first == last else f"{first}-{last}"


def distance_words(distance: float | str | None) -> str:
    """A distance in two digits; "bits" if only bits differ; "." if nothing does."""
    if distance is None:
        return "."
    if isinstance(distance, str):
        return distance
    return "bits" if distance == 0 else f"{distance:.1e}"
