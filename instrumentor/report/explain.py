"""Every decision with its reason, as a table."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from instrumentor.notebooks.cells import describe_line, describe_lines_in, place_in_cells
from instrumentor.plain_text import escape_unprintable
from instrumentor.report.terminal import encoding_of, line_width, uses_color

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from instrumentor.decision import Decision

_VERDICT_STYLES = {"wrap": "bold green", "merged": "yellow", "not wrapped": "dim"}
_CONFIDENCE_STYLES = {"certain": "", "likely": "yellow", "possible": "red"}
_MAX_CLASSES = 2
# In less width than this, eight columns would break words into syllables.
_TABLE_WIDTH = 100


class Explained(NamedTuple):
    """A decision to show.

    Attributes:
        path: the script.
        decision: a decision about it.
        cells: for a notebook, where its cells start, in the decision's line numbering.
    """

    path: str
    decision: Decision
    cells: tuple[tuple[int, int], ...] = ()


def render_decisions(rows: Sequence[Explained], stream: TextIO) -> bytes:
    """Format decisions for `stream`, without writing to it.

    Args:
        rows: the decisions, in the order to show them.
        stream: where the table will be shown.

    Returns:
        A table in the stream's encoding; empty if there are no decisions. A terminal gets colours and its own
        width, or a list if it is too narrow for columns. A pipe or file gets one line for each decision, of any
        length, for `grep` and `less -S`.
    """
    if not rows:
        return b""
    target = io.BytesIO()
    # Rich takes the encoding from its file, and draws ASCII lines if the encoding has no others.
    rendered = io.TextIOWrapper(target, encoding=encoding_of(stream), errors="backslashreplace", newline="\n")
    color = uses_color(stream)
    console = Console(file=rendered, force_terminal=color, highlight=False, markup=False, emoji=False)
    width = line_width(stream)
    table = _build_table(rows) if width is None or width >= _TABLE_WIDTH else _build_list(rows)
    if width is None:
        # Rich limits measurements to the console's width.
        console.width = 100_000
        width = Measurement.get(console, console.options, table).maximum
    console.width = width
    console.print(table)
    rendered.flush()
    return b"".join(line.rstrip(b" \n") + b"\n" for line in target.getvalue().splitlines() if line.strip())


def _build_table(rows: Sequence[Explained]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("File", overflow="fold")
    table.add_column("Line", justify="right", no_wrap=True)
    table.add_column("Binding", overflow="fold", style="bold")
    table.add_column("Object", overflow="fold")
    table.add_column("Verdict", no_wrap=True)
    table.add_column("Confidence", no_wrap=True)
    table.add_column("Reason")
    table.add_column("Aliases", overflow="fold")
    for path, decision, cells in rows:
        cell, line = place_in_cells(decision.line, cells)
        table.add_row(
            _cell(path if cell is None else f"{path}:cell {cell}"),
            _cell(str(line)),
            _cell(decision.target),
            _cell(describe_lines_in(describe_object(decision), cells)),
            Text(decision.verdict, style=_VERDICT_STYLES[decision.verdict]),
            Text(decision.confidence, style=_CONFIDENCE_STYLES[decision.confidence]),
            _cell(describe_lines_in(decision.reason, cells)),
            _cell(", ".join(f"{name} ({describe_line(line, cells)})" for name, line in decision.aliases)),
        )
    return table


def _build_list(rows: Sequence[Explained]) -> Group:
    parts: list[RenderableType] = []
    for path, decision, cells in rows:
        cell, line = place_in_cells(decision.line, cells)
        place = f"{path}:{line}" if cell is None else f"{path}:cell {cell}:{line}"
        verdict = Text(decision.verdict, style=_VERDICT_STYLES[decision.verdict])
        confidence = Text(decision.confidence, style=_CONFIDENCE_STYLES[decision.confidence])
        target = _cell(decision.target)
        target.stylize("bold")
        parts.append(Text.assemble(_cell(place), " ", target, " ", verdict, ", ", confidence, overflow="fold"))
        about = [describe_lines_in(describe_object(decision), cells), describe_lines_in(decision.reason, cells)]
        about.extend(f"also {name}, {describe_line(line, cells)}" for name, line in decision.aliases)
        parts.extend(Padding(_cell(each), (0, 0, 0, 4)) for each in about)
    return Group(*parts)


def describe_object(decision: Decision) -> str:
    """An object as the script names it, with its class and where that was found, if this adds information."""
    classes = [name for name in decision.class_names if name != decision.object]
    place = f" ({decision.read_at})" if decision.read_at else ""
    if not classes:
        return f"{decision.object}{place}"
    more = len(classes) - _MAX_CLASSES
    known = " or ".join(classes[:_MAX_CLASSES]) + (f" or {more} more" if more > 0 else "")
    is_same = len(classes) == 1 and classes[0].rpartition(".")[2] == decision.object.rpartition(".")[2]
    return f"{known}{place}" if is_same else f"{decision.object}: {known}{place}"


def _cell(text: str) -> Text:
    """Wrap text of the script in a `Text`; in a plain string, Rich would treat `models["g"]` as markup."""
    return Text(escape_unprintable(text))
