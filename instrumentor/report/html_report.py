"""The report for readers: one self-contained page with every change side by side and its reason."""

from __future__ import annotations

from collections import Counter
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from pygments.formatters import HtmlFormatter

from instrumentor import __version__
from instrumentor.decision import DECISION_KINDS
from instrumentor.plain_text import count
from instrumentor.report.highlight import highlight_rows
from instrumentor.report.relevance import may_pass_for_model
from instrumentor.report.side_by_side import rows_of
from instrumentor.settings import CONFIDENCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from instrumentor.paths.files import Output
    from instrumentor.report.highlight import Coloured
    from instrumentor.report.record import Addition, FileRecord, Site, Summary
    from instrumentor.report.side_by_side import Row

    Records = Callable[[], Iterator[FileRecord]]

_LIGHT, _DARK = "default", "github-dark"
_KEYS = {
    "j / k": "next, previous site",
    "n / p": "next, previous file",
    "o": "open or close the file",
    "/": "filter",
    "t": "light or dark",
    "Esc": "leave the filter, close this dialog",
    "?": "show these keys",
}


def render(records: Records, summary: Summary, out: Output) -> None:
    """Write the page: the tree of files with sites or failures, and a section for each.

    Calls that do not make models are only counted, since most calls in a large tree are of this kind.
    """

    def write(text: str) -> None:
        out.write(text.encode("utf-8", "replace"))

    held: Counter[str] = Counter()
    hidden = 0
    entries: list[tuple[str, int, bool]] = []
    for record in records():
        hidden += sum(not _may_pass(site) for site in record.sites)
        if _is_shown(record):
            held.update(site.confidence for site in record.sites if _may_pass(site))
            wraps = sum(site.decision == "wrap" for site in record.sites)
            entries.append((record.path, wraps, record.error is not None))
    write(_head(summary))
    write(_sidebar(entries, summary, hidden, [each for each in CONFIDENCES if held[each]]))
    write("<main>\n")
    number = 0
    for record in records():
        if _is_shown(record):
            for part in _section(record, number):
                write(part)
            number += 1
    if not number:
        write('<p class="empty">No file has a site.</p>')
    write(f"</main>\n<script>\n{_resource('page.js')}</script>\n</body>\n</html>\n")


def _is_shown(record: FileRecord) -> bool:
    return bool(record.diff or record.error) or any(map(_may_pass, record.sites))


def _may_pass(site: Site) -> bool:
    return may_pass_for_model(site.decision, site.code, site.target, site.object)


def _resource(name: str) -> str:
    return files("instrumentor.report").joinpath(name).read_text("utf-8")


def _head(summary: Summary) -> str:
    light = HtmlFormatter(style=_LIGHT).get_style_defs("[data-theme=light] .code")
    dark = HtmlFormatter(style=_DARK).get_style_defs("[data-theme=dark] .code")
    wrapped = summary.decisions.get("wrap", 0)
    return (
        '<!doctype html>\n<html lang="en" data-theme="light">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="instrument {escape(__version__)}">\n'
        f"<title>instrument: {count(wrapped, 'model')} in {count(summary.files, 'file')}</title>\n"
        f"<style>\n{light}\n{dark}\n{_resource('page.css')}</style>\n</head>\n<body>\n"
    )


def _sidebar(entries: list[tuple[str, int, bool]], summary: Summary, hidden: int, confidences: list[str]) -> str:
    counts = [
        (f"{summary.decisions.get('wrap', 0):,}", "wrapped"),
        (f"{summary.decisions.get('merged', 0):,}", "merged"),
        (f"{summary.decisions.get('not wrapped', 0) - hidden:,}", "not wrapped"),
        (f"{summary.statuses.get('changed', 0):,} / {summary.files:,}", "files change"),
    ]
    if hidden:
        counts.append((f"{hidden:,}", "no models, not shown"))
    if failed := summary.statuses.get("failed", 0):
        counts.append((f"{failed:,}", "failed"))
    numbers = "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>" for value, label in counts)
    boxes = "".join(_checkbox("confidence", each, is_checked=True) for each in confidences)
    filters = f'<fieldset id="confidence"><legend>Confidence</legend>{boxes}</fieldset>' if boxes else ""
    decisions = "".join(_checkbox("decision", kind, is_checked=kind != "not wrapped") for kind in DECISION_KINDS)
    keys = "".join(f"<dt><kbd>{key}</kbd></dt><dd>{meaning}</dd>" for key, meaning in _KEYS.items())
    return (
        '<aside>\n<header><h1>instrument</h1><button id="theme" title="Light or dark (t)">◐</button>'
        '<button id="help" title="Keys (?)">?</button></header>\n'
        f"<dl>{numbers}</dl>\n"
        '<input id="filter" type="search" placeholder="Filter files and models  ( / )" aria-label="Filter">\n'
        f'{filters}<fieldset id="decision"><legend>Decision</legend>{decisions}</fieldset>\n'
        f'<nav id="tree">{_tree(entries)}</nav>\n</aside>\n'
        f'<dialog id="keys"><h2>Keys</h2><dl>{keys}</dl></dialog>\n'
    )


def _checkbox(name: str, value: str, *, is_checked: bool) -> str:
    return f'<label><input type="checkbox" name="{name}" value="{value}"{" checked" * is_checked}> {value}</label>'


def _tree(entries: list[tuple[str, int, bool]]) -> str:
    """Folders as nested collapsible lists; the entries are in path order."""
    parts: list[str] = ["<ul>"]
    open_folders: list[str] = []
    for number, (path, wraps, failed) in enumerate(entries):
        *folders, name = path.split("/")
        common = 0
        while common < min(len(folders), len(open_folders)) and folders[common] == open_folders[common]:
            common += 1
        parts.extend("</ul></details></li>" for _ in open_folders[common:])
        parts.extend(f"<li><details open><summary>{escape(folder) or '/'}</summary><ul>" for folder in folders[common:])
        open_folders = folders
        badge = '<b class="failed">!</b>' if failed else f"<b>{wraps}</b>" if wraps else ""
        parts.append(f'<li><a href="#f{number}" data-file="{number}">{escape(name)} {badge}</a></li>')
    parts.extend("</ul></details></li>" for _ in open_folders)
    return "".join((*parts, "</ul>"))


def _section(record: FileRecord, number: int) -> Iterator[str]:
    wraps = sum(site.decision == "wrap" for site in record.sites)
    said = record.status if record.error is not None else f"{wraps} wrapped"
    sites = [site for site in record.sites if _may_pass(site)]
    search = " ".join((record.path, *(f"{site.target} {site.object}" for site in sites)))
    yield (
        f'<section id="f{number}" data-search="{escape(search.lower(), quote=True)}">'
        f'<details open><summary><h2>{escape(record.path)}</h2><span class="status">{escape(said)}</span></summary>\n'
    )
    if record.error is not None:
        place = "" if record.error.line is None else f"line {record.error.line}: "
        yield f'<p class="error">{escape(place + record.error.message)}</p>\n'
    shown = [addition.site for addition in record.additions if addition.site is not None]
    rows = rows_of(record) if record.diff else []
    lines = {row.old for row in rows if row.old is not None}
    if rows:
        yield from _diff_table(record, rows, lines, number)
    rest = [site for position, site in enumerate(record.sites) if position not in shown and _may_pass(site)]
    if rest:
        yield '<table class="sites"><tbody>\n'
        for site in rest:
            yield _site_row(site, number, lines)
        yield "</tbody></table>\n"
    yield "</details></section>\n"


def _diff_table(record: FileRecord, rows: list[Row], lines: set[int], number: int) -> Iterator[str]:
    by_line: dict[int, list[Addition]] = {}
    for addition in record.additions:
        by_line.setdefault(addition.line, []).append(addition)
    statements = {line for site in record.sites for line in (site.line, *(alias.line for alias in site.aliases))}
    coloured = highlight_rows(rows, record.path, statements)
    yield '<table class="diff code"><colgroup><col class="n"><col><col class="n"><col></colgroup><tbody>\n'
    for row, code in zip(rows, coloured, strict=True):
        yield _diff_row(row, code, number)
        for addition in by_line.get(row.new or 0, []):
            if addition.site is not None:
                yield _reason_row(record.sites[addition.site], number, lines)
    yield "</tbody></table>\n"


def _diff_row(row: Row, code: Coloured, number: int) -> str:
    if row.kind == "gap":
        return '<tr class="gap"><td colspan="4"></td></tr>\n'
    anchor = f' id="f{number}-l{row.old}"' if row.old is not None else ""
    return (
        f'<tr class="{row.kind}"{anchor}><td class="n">{row.old or ""}</td><td class="old">{code.old}</td>'
        f'<td class="n">{row.new or ""}</td><td class="new">{code.new}</td></tr>\n'
    )


def _reason_row(site: Site, number: int, lines: set[int]) -> str:
    return (
        f'<tr class="why site" tabindex="-1" {_data(site)}><td colspan="2"></td><td class="n"></td>'
        f"<td>{_explanation(site, number, lines)}</td></tr>\n"
    )


def _site_row(site: Site, number: int, lines: set[int]) -> str:
    line = _line_link(site.line, number, lines, site.cell)
    return (
        f'<tr class="site" tabindex="-1" {_data(site)}><td class="place">{line}</td>'
        f"<td><code>{escape(site.target)}</code></td><td>{_explanation(site, number, lines)}</td></tr>\n"
    )


def _data(site: Site) -> str:
    return f'data-decision="{site.decision}" data-confidence="{site.confidence}"'


def _explanation(site: Site, number: int, lines: set[int]) -> str:
    badge = f'<span class="badge {site.confidence}">{site.confidence}</span> '
    verdict = f'<span class="decision">{site.decision}</span> {badge}<code>{escape(site.object)}</code>:'
    parts = [verdict, f' <span class="reason">{escape(site.reason)}</span>']
    if site.wrapped_at is not None:
        parts.append(
            f' <span class="alias">proxy: {_line_link(site.wrapped_at, number, lines, site.wrapped_in)}</span>'
        )
    if site.aliases:
        links = ", ".join(
            f"<code>{escape(alias.name)}</code> {_line_link(alias.line, number, lines, alias.cell)}"
            for alias in site.aliases
        )
        parts.append(f' <span class="alias">also {links}</span>')
    return "".join(parts)


def _line_link(line: int, number: int, lines: set[int], cell: int | None) -> str:
    if cell is not None:  # its lines are not lines of the file, whose JSON the page shows
        return f"cell {cell} line {line}"
    return f'<a href="#f{number}-l{line}">line {line}</a>' if line in lines else f"line {line}"
