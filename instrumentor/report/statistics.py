"""Sites by decision and reason, counted over all files."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from instrumentor.decision import DECISION_KINDS
from instrumentor.plain_text import count
from instrumentor.report.terminal import encoding_of, line_width, uses_color

if TYPE_CHECKING:
    from instrumentor.report.record import Summary

# The meaning of each code, in the plural.
MEANINGS = {
    "factory": "models wrapped in the function that returns them",
    "constructed": "models created by a class or function that is known to create them",
    "copied": "copies of models, with parameters of their own",
    "used-as-module": "objects that are used in ways that only models are",
    "declared": "objects that are declared as models",
    "merged": "other names of a model whose proxy is elsewhere",
    "submodule": "parts of a model, covered by its proxy",
    "no-params": "modules without parameters",
    "not-module": "objects that are not modules",
    "temporary": "models that exist only within one statement",
    "derived": "other views of a model's parameters",
    "absorbed": "models covered by the wrapper around them",
    "returned": "models returned to a caller, which wraps them",
    "unreached": "models created in functions that nothing in the program calls",
    "proxied": "models that the script itself proxies",
    "out-of-sight": "models created where no proxy can be added",
    "deselected": "models left out by --select or --skip",
    "suppressed": "models excluded by a comment",
    "unsure": "possible models below --min-confidence",
}
_WIDTH = 110


def render_statistics(summary: Summary, stream: TextIO) -> bytes:
    """Format the counts for `stream`, without writing to it."""
    target = io.BytesIO()
    text = io.TextIOWrapper(target, encoding=encoding_of(stream), errors="backslashreplace", newline="\n")
    console = Console(file=text, force_terminal=uses_color(stream), highlight=False, markup=False)
    console.width = line_width(stream) or _WIDTH
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("Sites", justify="right")
    table.add_column("Reason")
    table.add_column("")
    for code, number in summary.codes.items():
        table.add_row(f"{number:,}", code, MEANINGS.get(code, ""))
    decided = ", ".join(f"{summary.decisions.get(kind, 0):,} {kind}" for kind in DECISION_KINDS)
    console.print(table)
    sites, scripts = count(sum(summary.decisions.values()), "site"), count(summary.files, "file")
    console.print(f"{sites} in {scripts}: {decided}")
    text.flush()
    return b"".join(line.rstrip() + b"\n" for line in target.getvalue().splitlines())
