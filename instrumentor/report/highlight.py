"""Highlights pieces of a file's code, which may begin or end inside a multi-line string."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import JsonLexer, PythonLexer
from pygments.token import String, is_token_subtype

from instrumentor.notebooks.cells import is_notebook
from instrumentor.plain_text import escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from pygments.lexer import Lexer

    from instrumentor.report.side_by_side import Row

# Openings of strings that a piece may continue.
_OPENINGS = ("", '"""\n', "'''\n")


class Coloured(NamedTuple):
    """The two texts of a row as HTML."""

    old: str
    new: str


def highlight_rows(rows: Sequence[Row], path: str, statements: Set[int]) -> list[Coloured]:
    """Highlight the shown rows of a file.

    Args:
        rows: the rows in order; rows on both sides of a gap are not adjacent.
        path: the file's path, which determines the language.
        statements: lines of the original that are code, as are added lines. They show whether a piece begins
            inside a docstring whose opening quotes are not shown.

    Returns:
        One pair for each row.
    """
    found: list[Coloured] = []
    for is_gap, group in groupby(rows, key=lambda row: row.kind == "gap"):
        piece = list(group)
        if is_gap:
            found.extend(Coloured("", "") for _ in piece)
        elif is_notebook(path):
            found.extend(_colour(piece, "", JsonLexer(stripnl=False, ensurenl=False)))
        else:
            lexer = PythonLexer(stripnl=False, ensurenl=False)
            found.extend(_colour(piece, _find_opening(piece, statements, lexer), lexer))
    return found


def _colour(piece: Sequence[Row], opening: str, lexer: Lexer) -> list[Coloured]:
    old = _highlight([row.old_text for row in piece], opening, lexer)
    new = _highlight([row.new_text for row in piece], opening, lexer)
    return [Coloured(*each) for each in zip(old, new, strict=True)]


def _find_opening(piece: Sequence[Row], statements: Set[int], lexer: Lexer) -> str:
    """The quotes to put before a piece so that none of its code is inside a string; empty if none are needed."""
    code = {position for position, row in enumerate(piece) if row.kind == "added" or row.old in statements}
    text = _join([row.new_text for row in piece])
    for opening in _OPENINGS:
        within = _lines_within_strings(opening + text, lexer)
        if not any(position + bool(opening) in within for position in code):
            return opening
    return ""


def _lines_within_strings(text: str, lexer: Lexer) -> set[int]:
    """The lines, from 0, that begin inside a string."""
    found: set[int] = set()
    line = 0
    for kind, value in lexer.get_tokens(text):
        ends = value.count("\n")
        if is_token_subtype(kind, String):
            found.update(range(line + 1, line + 1 + ends))
        line += ends
    return found


def _highlight(lines: Sequence[str], opening: str, lexer: Lexer) -> list[str]:
    coloured: str = highlight(opening + _join(lines), lexer, HtmlFormatter(nowrap=True))
    # A span across lines would break the table's cells; pygments closes spans at line ends.
    found = coloured.split("\n")[bool(opening) :]
    return [*found, *[""] * len(lines)][: len(lines)]


def _join(lines: Sequence[str]) -> str:
    # Pygments treats "\r" and form feeds as line ends, which they are not here. Characters that would hide or reverse
    # code are escaped for the reviewer.
    return "\n".join(escape_unprintable(line.rstrip("\r").replace("\r", "␍").replace("\f", "␌")) for line in lines)
