"""Changes within statements: each statement is parsed alone and changed, and the additions become insertions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from instrumentor import emit
from instrumentor.changes import How, Position, Span
from instrumentor.source.edits import NewText
from instrumentor.source.source_text import split_lines
from instrumentor.transformer import ProxyTransformer, take_out, transform

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from instrumentor.changes import Change, Part
    from instrumentor.source.source_text import SourceText
    from instrumentor.transformer import ProxyMaker

# At the same place in a line, the end of one expression comes before the start of another.
_AFTER, _BEFORE = 0, 1


def edits_within(source: SourceText, changes: Iterable[Change], maker: ProxyMaker) -> Iterator[NewText]:
    """The insertions that put proxies into statements.

    Args:
        source: the script.
        changes: the changes; separate lines are left out.
        maker: makes the added code.
    """
    by_part: dict[Part, list[Change]] = {}
    for change in changes:
        if change.part is not None:
            by_part.setdefault(change.part, []).append(change)
    for part, within in by_part.items():
        edits = _edits_of_part(source, part, within, maker)
        yield from _edits_by_position(within, maker) if edits is None else edits


def _edits_of_part(
    source: SourceText, part: Part, changes: Sequence[Change], maker: ProxyMaker
) -> list[NewText] | None:
    """The insertions in a part of a statement, read from its changed tree; None if libcst does not reproduce it."""
    text = part.before + _text_between(source, part.span) + part.behind
    offset = _Offset(part)
    transformer = ProxyTransformer(maker, [replace(each, span=offset.span(each.span)) for each in changes])
    try:
        module = cst.parse_module(text)
        changed = transform(module, transformer)
        rendered = split_lines(changed.code)
        additions = transformer.additions(changed)
    except (cst.ParserSyntaxError, cst.CSTValidationError):
        return None
    if transformer.count != len(changes) or take_out(rendered, additions) != text:
        return None
    edits = []
    line, grown = 0, 0
    for number, each in enumerate(additions):
        grown = grown if each.line == line else 0
        line = each.line
        start = offset.original(Position(line, each.start - grown))
        edits.append(NewText(*start, rendered[line - 1][each.start : each.end], (number,)))
        grown += each.end - each.start
    return edits


def _edits_by_position(changes: Sequence[Change], maker: ProxyMaker) -> Iterator[NewText]:
    """The same insertions, made from positions alone."""
    for change in changes:
        start, end = change.span
        if change.how is How.BESIDE:
            yield NewText(*end, f"; {maker.line_text(change)}", (_AFTER, *end))
            continue
        wrapping = emit.render_wrapping(
            maker.alias, change.name, maker.settings, can_encode=maker.can_encode, is_each=change.is_each
        )
        # Of expressions that start at the same place, the longer is the outer one; of those that end there, the later.
        yield NewText(*start, wrapping.before, (_BEFORE, -end.line, -end.column))
        yield NewText(*end, wrapping.after, (_AFTER, -start.line, -start.column))


def _text_between(source: SourceText, span: Span) -> str:
    (first, start), (last, end) = span
    lines = list(source.lines[first - 1 : last])
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    return "".join(lines)


class _Offset:
    """Converts positions in a script to positions in a part that is parsed alone."""

    def __init__(self, part: Part) -> None:
        *before, last = part.before.split("\n")
        self._first = part.span.start
        self._lines = len(before) + 1 - self._first.line
        self._columns = len(last) - self._first.column

    def span(self, span: Span) -> Span:
        return Span(self._moved(span.start), self._moved(span.end))

    def _moved(self, position: Position) -> Position:
        columns = self._columns if position.line == self._first.line else 0
        return Position(position.line + self._lines, position.column + columns)

    def original(self, position: Position) -> Position:
        line = position.line - self._lines
        return Position(line, position.column - (self._columns if line == self._first.line else 0))
