"""The section of a page on where two runs part. All text from a trace is escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.comparison.records.parting import CONFIGURATION
from proxy_trace.comparison.records.records_text import (
    distance_words,
    limit_lines,
    place_of,
    setting_line,
    span_words,
    step_words,
    verdict,
    what,
    where,
)
from proxy_trace.comparison.runs_text import by_norms
from proxy_trace.report.markup import as_text
from proxy_trace.report.plots import distance_chart, distance_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy_trace.comparison.records.compare_records import RecordComparison
    from proxy_trace.comparison.records.distances import Series
    from proxy_trace.comparison.records.parting import Parting, SeenRecord

_NAMES: Final = ("first", "second")
_MOST_ROWS: Final = 1000


def parting_section(found: RecordComparison) -> str:
    """The section as HTML."""
    return "".join(_parts(found))


def _parts(found: RecordComparison) -> Iterator[str]:
    yield '<section id="parting">\n<h2>Where the two runs part</h2>\n'
    yield f'<p class="verdict">{as_text(verdict(found))}</p>\n'
    yield f"<p>{found.records:,} pairs of records were compared.</p>\n"
    if found.by_statistics:
        yield f"<p>{as_text(by_norms(found.by_statistics))}.</p>\n"
    yield _list(setting_line(each) for each in found.partings if each.kind == CONFIGURATION)
    others = [each for each in found.partings if each.kind != CONFIGURATION]
    if others:
        yield _both_records(others[0])
    if others[1:]:
        yield "<h3>The first of other kinds</h3>\n"
        yield _list(f"{where(each)}: {what(each)} ({_places(each)})" for each in others[1:])
    if found.series:
        yield "<h3>How far apart</h3>\n<p>The relative difference of norms: 0 where only bits differ.</p>\n"
        yield f'<div class="scroll">{distance_chart(found.series, as_text)}</div>\n'
        yield f'<div class="scroll">{distance_map(found.series, as_text)}</div>\n'
        yield _series_table(found.series)
    limits = limit_lines(found)
    if limits:
        yield "<h3>How far they were compared</h3>\n"
        yield _list(limits)
    yield "</section>\n"


def _list(items: Iterable[str]) -> str:
    lines = "".join(f"<li>{as_text(item)}</li>\n" for item in items)
    return f"<ul>\n{lines}</ul>\n" if lines else ""


def _both_records(parting: Parting) -> str:
    boxes = "".join(
        f"<div><h3>{name}</h3>{_record(record)}</div>\n" for name, record in zip(_NAMES, parting.records, strict=True)
    )
    return f'<div class="records">\n{boxes}</div>\n'


def _record(record: SeenRecord | None) -> str:
    if record is None:
        return '<p class="dim">nothing more</p>'
    made = f"<p>from {as_text('; '.join(record.made_from))}</p>" if record.made_from else ""
    callers = record.place.callers if record.place is not None else []
    called = f'<p class="dim">called from {as_text(", ".join(callers))}</p>' if callers else ""
    return (
        f"<p><code>{as_text(place_of(record))}</code></p><p>{as_text(record.kind)} <b>{as_text(record.name)}</b></p>"
        f"<p><code>{as_text(record.text)}</code></p>{made}{called}"
    )


def _places(parting: Parting) -> str:
    return " | ".join("-" if each is None else str(each.place or "-") for each in parting.records)


def _series_table(series: list[Series]) -> str:
    """All distances, a row per module and span, so that they can be read without the plots."""
    rows = []
    for each in series:
        for distance in each.distances:
            cells = (each.module, each.kind, str(each.rank), span_words(distance.first_step, distance.last_step))
            numbers = (distance_words(distance.largest), f"{distance.records:,}", step_words(each.first_step))
            rows.append(
                f"<tr>{''.join(f'<td>{as_text(cell)}</td>' for cell in cells)}"
                f"{''.join(f'<td class=n>{as_text(number)}</td>' for number in numbers)}</tr>\n"
            )
    header = ("module", "what", "rank", "steps", "largest", "records", "from step")
    more = f"<p>and {len(rows) - _MOST_ROWS:,} more rows</p>\n" if len(rows) > _MOST_ROWS else ""
    head = "".join(f"<th>{name}</th>" for name in header)
    body = "".join(rows[:_MOST_ROWS])
    return f"<details><summary>as a table</summary>\n<table>\n<tr>{head}</tr>\n{body}</table>\n{more}</details>\n"
