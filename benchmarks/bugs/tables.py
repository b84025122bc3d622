"""Renders verdicts as tables, in plain text or Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bugs.pairs import HALVES
from bugs.verdicts import VERDICTS, Counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bugs.verdicts import Verdict

HEADINGS: Final = ("", "pairs", "named", "with place", *VERDICTS[1:], "false alarms", "shown by --against")


def render(verdicts: Sequence[Verdict], scripts: Mapping[str, Sequence[str]], form: str) -> str:
    """A table of counts by area, in total and by half, then the false alarms one by one.

    Args:
        verdicts: of the pairs.
        scripts: of each further correct script the errors and warnings that were found in it.
        form: "text" or "markdown".
    """
    parts = []
    if verdicts:
        parts.append(_table([HEADINGS, *_rows(verdicts)], form))
    alarms = [(f"{one.pair}/correct.py", one.false_alarms) for one in verdicts] + list(scripts.items())
    if scripts:
        raised = sum(bool(found) for found in scripts.values())
        parts.append(f"{raised} of {len(scripts)} further correct scripts raise a false alarm.")
    lines = [f"- {script}: {', '.join(found)}" for script, found in alarms if found]
    if lines:
        parts.append("\n".join(["False alarms:", *([""] if form == "markdown" else []), *lines]))
    return "\n\n".join(parts) + "\n"


def _rows(verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    areas = list(dict.fromkeys(one.area for one in sorted(verdicts, key=lambda one: one.area)))
    rows = [_row(area, (one for one in verdicts if one.area == area)) for area in areas]
    rows.append(_row("all", verdicts))
    rows += [_row(half, (one for one in verdicts if one.half == half)) for half in HALVES]
    return rows


def _row(name: str, verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    counts = Counts()
    for one in verdicts:
        counts.add(one)
    named, *others = (str(counts.of[verdict]) for verdict in VERDICTS)
    return (name, str(counts.pairs), named, str(counts.placed), *others, str(counts.false_alarms), str(counts.shown))


def _table(rows: Sequence[Sequence[str]], form: str) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    padded = [
        [cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths, strict=True))]
        for row in rows
    ]
    if form == "markdown":
        lines = ["| " + " | ".join(row) + " |" for row in padded]
        lines.insert(1, "|" + "|".join("-" * (width + 1) + (":" if i else "-") for i, width in enumerate(widths)) + "|")
        return "\n".join(lines)
    return "\n".join("  ".join(row).rstrip() for row in padded)
