"""The tree of an instrumented script, with the original's positions."""

from __future__ import annotations

import ast
import warnings
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from instrumentor.nesting import room_for_nesting
from instrumentor.source.source_text import decode
from instrumentor.source.undo import read_source_comment, without_spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from instrumentor.source.source_text import SourceText
    from instrumentor.source.undo import SourceComment

_NOWHERE = -1
"""The column of what stands nowhere in a line: Python then marks the whole line in a traceback."""


class _Place(NamedTuple):
    line: int
    column: int


def original_tree(source: bytes, *, source_name: str) -> ast.Module:
    """Parse a script; its nodes get the lines and columns of the original.

    If it is compiled under the original's name, tracebacks, warnings and traces show the original's lines and columns.

    Args:
        source: the script's bytes, instrumented or not.
        source_name: the path to name in errors.

    Raises:
        SourceDecodeError: `source` does not fit its declared encoding.
        SyntaxError: `source` is not Python.
    """
    text = decode(source, source_name=source_name)
    comment = read_source_comment(text)
    with room_for_nesting(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text.text, source_name)
    if comment is not None:
        places = _Places(text, comment)
        for node in ast.walk(tree):
            if hasattr(node, "lineno"):
                places.move(node)
    return tree


class _Places:
    """Maps positions in an instrumented script to the original."""

    def __init__(self, text: SourceText, comment: SourceComment) -> None:
        self._text = text
        self._added_lines = sorted(comment.lines)
        self._spans: dict[int, list[tuple[int, int]]] = {}
        for line, start, end in sorted(comment.spans):
            self._spans.setdefault(line, []).append((start, end))

    def move(self, node: Any) -> None:
        """Give `node` its position in the original."""
        start = self._original(node.lineno, node.col_offset)
        end = self._original(node.end_lineno, node.end_col_offset)
        is_inserted = start == end or _NOWHERE in (start.column, end.column)
        # Python before 3.12 may report invalid columns within an f-string.
        if is_inserted or end < start:
            start = end = _Place(start.line, _NOWHERE)
        node.lineno, node.col_offset = start
        node.end_lineno, node.end_col_offset = end

    def _original(self, line: int, column: int) -> _Place:
        """The position in the original; columns are in UTF-8 bytes, as in all trees."""
        # As in a trace: an added line belongs to the line before it.
        number = max(1, line - bisect_right(self._added_lines, line))
        at = bisect_right(self._added_lines, line)
        if at and self._added_lines[at - 1] == line:
            return _Place(number, _NOWHERE)
        spans = self._spans.get(line)
        return _Place(number, column if spans is None else self._without(spans, line, column))

    def _without(self, spans: Sequence[tuple[int, int]], line: int, column: int) -> int:
        characters = self._text.column(line, column)
        before = [(start, min(end, characters)) for start, end in spans if start < characters]
        kept = without_spans(self._text.lines[line - 1][:characters], before)
        return len(kept.encode("utf-8", "surrogatepass"))
