"""The report for a pull request: a comment that fits, in Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from instrumentor.plain_text import escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from instrumentor.paths.files import Output
    from instrumentor.report.record import FileRecord, Site, Summary

# GitHub rejects comments of more than 65,536 characters; the report says what it leaves out.
_MAX_CHARACTERS = 60_000
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~])")


def render(records: Callable[[], Iterator[FileRecord]], summary: Summary, out: Output) -> None:
    """Write the summary, the failures, and for each file its models with the reason and the diff."""
    failed = summary.statuses.get("failed", 0)
    parts = [f"# Instrumented models\n\n{_headline(summary)}\n\n"]
    if failed:
        parts.append("## Failed\n\n")
        parts.extend(
            f"- {_code(_place(record, record.error.line))}: {_escape(record.error.message)}\n"
            for record in records()
            if record.error is not None
        )
        parts.append("\n")
    left = _MAX_CHARACTERS - sum(map(len, parts))
    omitted = 0
    for record in records():
        if not record.diff and not any(site.decision == "wrap" for site in record.sites):
            continue
        section = _render_file(record)
        if len(section) > left:
            section = _render_file(record, with_diff=False)
        if len(section) > left:
            omitted += 1
            continue
        left -= len(section)
        parts.append(section)
    if omitted:
        parts.append(f"{omitted:,} more files do not fit into a comment; the other report formats include them.\n")
    out.write("".join(parts)[: _MAX_CHARACTERS + 1000].encode("utf-8", "replace"))


def _headline(summary: Summary) -> str:
    wrapped = summary.decisions.get("wrap", 0)
    changed = summary.statuses.get("changed", 0)
    failed = summary.statuses.get("failed", 0)
    more = f", **{failed:,} failed**" if failed else ""
    return f"**{wrapped:,}** models get a proxy; {changed:,} of {summary.files:,} files change{more}."


def _render_file(record: FileRecord, *, with_diff: bool = True) -> str:
    wrapped = [site for site in record.sites if site.decision == "wrap"]
    lines = [f"<details><summary><code>{_html(record.path)}</code>: {len(wrapped)} wrapped</summary>\n\n"]
    lines.append("| line | model | object | decision | why |\n| ---: | --- | --- | --- | --- |\n")
    lines.extend(
        f"| {_line(site)} | {_code(site.target)} | {_code(site.object)} | {site.decision} | {_escape(site.reason)} |\n"
        for site in record.sites
        if site.decision != "not wrapped"
    )
    if with_diff and record.diff:
        fence = "`" * max(3, max(map(len, re.findall("`+", record.diff)), default=0) + 1)
        lines.append(f"\n{fence}diff\n{record.diff}{fence}\n")
    lines.append("\n</details>\n\n")
    return "".join(lines)


def _line(site: Site) -> str:
    return str(site.line) if site.cell is None else f"cell {site.cell}, {site.line}"


def _place(record: FileRecord, line: int | None) -> str:
    return record.path if line is None else f"{record.path}:{line}"


def _code(text: str) -> str:
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    # In a table, a pipe ends the cell, even within code.
    shown = escape_unprintable(text.replace("\n", " "))
    return f"{fence}{pad}{shown}{pad}{fence}".replace("|", "\\|")


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", escape_unprintable(text.replace("\n", " ")))


def _html(text: str) -> str:
    return escape_unprintable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
