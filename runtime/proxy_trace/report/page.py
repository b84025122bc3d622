"""The page: one HTML file that needs nothing else. Whatever comes from a trace stands in it as text."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from proxy_trace.colour import for_terminal
from proxy_trace.records.parting import CONFIGURATION
from proxy_trace.records.records_text import (
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
from proxy_trace.report.plots import distance_chart, distance_map
from proxy_trace.runs_text import by_norms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy_trace.records.compare_records import RecordComparison
    from proxy_trace.records.distances import Series
    from proxy_trace.records.parting import Parting, SeenRecord
    from proxy_trace.runs import ComparedRun

_NAMES: Final = ("first", "second")
_MOST_ROWS: Final = 1000

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8885; --dim: #888; --first: #2266cc; --second: #cc6611; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.5rem; }
table { border-collapse: collapse; font-size: 0.9rem; } td, th { padding: 0.2rem 0.7rem; text-align: left; }
th { color: var(--dim); font-weight: normal; border-bottom: 1px solid var(--line); } td.n { text-align: right; }
code { font-family: ui-monospace, monospace; font-size: 0.9em; overflow-wrap: anywhere; }
.verdict { font-size: 1.1rem; font-weight: 600; } .dim { color: var(--dim); }
.records { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
.records > div { border: 1px solid var(--line); border-radius: 6px; padding: 0.8rem 1rem; min-width: 0; }
.records h3 { margin: 0 0 0.4rem; font-size: 1rem; } .scroll { overflow-x: auto; }
svg { max-width: 100%; height: auto; font: 11px system-ui, sans-serif; } svg text { fill: currentColor; }
"""


def render(found: RecordComparison) -> str:
    """The whole page as text."""
    return "".join(_parts(found))


def _parts(found: RecordComparison) -> Iterator[str]:
    title = " | ".join(run.run for run in found.runs)
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>Where two runs part</h1>\n"
    )
    yield _runs_table(found.runs)
    yield f"<p>{found.records:,} pairs of records were compared.</p>\n"
    if found.by_statistics:
        yield f"<p>{_text(by_norms(found.by_statistics))}.</p>\n"
    yield f'<p class="verdict">{_text(verdict(found))}</p>\n'
    yield _list(setting_line(each) for each in found.partings if each.kind == CONFIGURATION)
    others = [each for each in found.partings if each.kind != CONFIGURATION]
    if others:
        yield _both_records(others[0])
    if others[1:]:
        yield "<h2>The first of other kinds</h2>\n"
        yield _list(f"{where(each)}: {what(each)} ({_places(each)})" for each in others[1:])
    if found.series:
        yield "<h2>How far apart</h2>\n<p>The relative difference of norms: 0 where only bits differ.</p>\n"
        yield f'<div class="scroll">{distance_chart(found.series, _text)}</div>\n'
        yield f'<div class="scroll">{distance_map(found.series, _text)}</div>\n'
        yield _series_table(found.series)
    limits = limit_lines(found)
    if limits:
        yield "<h2>How far they were compared</h2>\n"
        yield _list(limits)
    yield "</body>\n</html>\n"


def _text(text: object) -> str:
    """Text as HTML has it: no markup, and nothing that is not printed."""
    return escape(for_terminal(str(text)))


def _list(items: Iterable[str]) -> str:
    lines = "".join(f"<li>{_text(item)}</li>\n" for item in items)
    return f"<ul>\n{lines}</ul>\n" if lines else ""


def _runs_table(runs: Iterable[ComparedRun]) -> str:
    rows = "".join(
        f"<tr><th>{name}</th><td><code>{_text(run.run)}</code></td><td><code>{_text(' '.join([run.script, *run.argv]))}"
        f"</code></td><td>Python {_text(run.python)}, torch {_text(run.torch)}</td></tr>\n"
        for name, run in zip(_NAMES, runs, strict=True)
    )
    return f"<table>\n{rows}</table>\n"


def _both_records(parting: Parting) -> str:
    boxes = "".join(
        f"<div><h3>{name}</h3>{_record(record)}</div>\n" for name, record in zip(_NAMES, parting.records, strict=True)
    )
    return f'<div class="records">\n{boxes}</div>\n'


def _record(record: SeenRecord | None) -> str:
    if record is None:
        return '<p class="dim">nothing more</p>'
    made = f"<p>from {_text('; '.join(record.made_from))}</p>" if record.made_from else ""
    callers = record.place.callers if record.place is not None else []
    called = f'<p class="dim">called from {_text(", ".join(callers))}</p>' if callers else ""
    return (
        f"<p><code>{_text(place_of(record))}</code></p><p>{_text(record.kind)} <b>{_text(record.name)}</b></p>"
        f"<p><code>{_text(record.text)}</code></p>{made}{called}"
    )


def _places(parting: Parting) -> str:
    return " | ".join("-" if each is None else str(each.place or "-") for each in parting.records)


def _series_table(series: list[Series]) -> str:
    """All distances; every span of every module is a row of its own, so that it can be read without the plots."""
    rows = []
    for each in series:
        for distance in each.distances:
            cells = (each.module, each.kind, str(each.rank), span_words(distance.first_step, distance.last_step))
            numbers = (distance_words(distance.largest), f"{distance.records:,}", step_words(each.first_step))
            rows.append(
                f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in cells)}"
                f"{''.join(f'<td class=n>{_text(number)}</td>' for number in numbers)}</tr>\n"
            )
    header = ("module", "what", "rank", "steps", "largest", "records", "from step")
    more = f"<p>and {len(rows) - _MOST_ROWS:,} more rows</p>\n" if len(rows) > _MOST_ROWS else ""
    head = "".join(f"<th>{name}</th>" for name in header)
    body = "".join(rows[:_MOST_ROWS])
    return f"<details><summary>as a table</summary>\n<table>\n<tr>{head}</tr>\n{body}</table>\n{more}</details>\n"
