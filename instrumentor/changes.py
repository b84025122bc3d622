"""The planned changes to a script as plain values: positions in its text, and what is inserted there."""

from __future__ import annotations

import ast
import re
import unicodedata
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.analysis.placement import Place
from instrumentor.source.source_text import line_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from instrumentor.decide import Wrap
    from instrumentor.source.source_text import SourceText

_NOTHING_BUT_A_COMMENT = re.compile(r"\s*(?:#.*)?", re.DOTALL)
_LEADS_ON = re.compile(r"[\s;]*\\[\r\n]")


class How(Enum):
    """How a proxy or the import is inserted into a script."""

    AROUND = "around an expression"
    LINE_BEHIND = "on a line of its own behind a statement"
    LINE_BEFORE = "on a line of its own before a statement"
    BESIDE = "behind a statement, on its line"
    IN_FRONT = "before a statement, on its line"


class Position(NamedTuple):
    """A place in a text: line from 1, column from 0, in characters."""

    line: int
    column: int


class Span(NamedTuple):
    """The start and end of a piece of text."""

    start: Position
    end: Position


class Part(NamedTuple):
    """A part of a statement that can be parsed by itself: a simple statement, or the head of a compound one.

    Attributes:
        span: its position.
        before: text to put before it to make it a statement.
        behind: text to put after it, likewise.
    """

    span: Span
    before: str = ""
    behind: str = ""


@dataclass(frozen=True)
class Change:
    """One proxy to insert into a script.

    Attributes:
        how: how it is inserted.
        span: the expression or statement that it is attached to.
        part: what must be parsed to insert it; None for a separate line.
        after_line: for a separate line, the line that it follows; 0 for the top.
        target: for a statement, the target to rebind, as the script spells it.
        name: the object's name in the trace.
        is_each: whether the expression is an iterator whose elements each get a proxy when they are requested.
    """

    how: How
    span: Span
    name: str
    part: Part | None = None
    after_line: int = 0
    target: str = ""
    is_each: bool = False


class ImportPlace(NamedTuple):
    """Where the import goes: on a line before or after the statement at `span`, or in front of it on its line."""

    how: How
    span: Span
    after_line: int = 0


@dataclass(frozen=True)
class Changes:
    """All changes to a script.

    Attributes:
        alias: the name of the runtime module in the script.
        import_place: where it is imported.
        proxies: the proxies; those for the same place are in order.
    """

    alias: str
    import_place: ImportPlace
    proxies: tuple[Change, ...]


def find_changes(source: SourceText, tree: ast.Module, wraps: Sequence[Wrap], alias: str) -> Changes:
    """Find where in a script's text the planned proxies go.

    Args:
        source: the script.
        tree: the parsed script.
        wraps: the planned proxies.
        alias: the name of the runtime module in the script.
    """
    text = TreeText(source)
    first = min(wrap.placement.statement.lineno for wrap in wraps)
    changes = tuple(_find_change(text, wrap) for wrap in wraps)
    return Changes(alias, _find_import_place(text, tree.body, first), changes)


def _find_change(text: TreeText, wrap: Wrap) -> Change:
    placement = wrap.placement
    statement, target = placement.statement, placement.target
    if isinstance(statement, ast.For) and target is not None and placement.is_each:
        first = statement.body[0]
        if not text.starts_line(first):
            return _around(text, placement.expression, statement, wrap.name, is_each=True)
        line = text.first_line(first) - 1
        return Change(How.LINE_BEFORE, text.span(first), wrap.name, after_line=line, target=text.spelled(target))
    if placement.place is Place.LINE and target is not None:
        spelled = f"{text.spelled(target)}{placement.part}"
        span = text.span(statement)
        if text.has_own_lines(statement):
            return Change(How.LINE_BEHIND, span, wrap.name, after_line=span.end.line, target=spelled)
        if not placement.can_inline:
            return Change(How.BESIDE, span, wrap.name, Part(span), target=spelled)
    return _around(text, placement.expression, statement, wrap.name, is_each=placement.is_each)


def _around(text: TreeText, expression: ast.expr, statement: ast.stmt, name: str, *, is_each: bool) -> Change:
    span = text.span(expression)
    return Change(How.AROUND, span, name, _part_with(text, statement, span), is_each=is_each)


def _part_with(text: TreeText, statement: ast.stmt, wanted: Span) -> Part:
    """The part of a statement that contains an expression: a simple statement whole, or a compound one's head."""
    span = text.span(statement)
    body: list[ast.stmt] = getattr(statement, "body", [])
    if isinstance(statement, ast.Match):
        cases = [each for each in statement.cases if text.position(each.pattern) <= wanted.start]
        if cases:
            return _head(text.position(cases[-1].pattern), text, cases[-1].body[0], "match _:\n case ")
        return _head(span.start, text, statement.cases[0].pattern, "")._replace(behind="_: pass")
    if not body:
        return Part(span)
    handlers = [each for each in getattr(statement, "handlers", []) if text.position(each) <= wanted.start]
    if handlers:
        return _head(text.position(handlers[-1]), text, handlers[-1].body[0], "try: pass\n")
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    if decorators and wanted.start < span.start:
        line = text.first_line(statement)
        start = Position(line, len(text.line(line)) - len(text.line(line).lstrip()))
        return _head(start, text, body[0], "")
    is_elif = isinstance(statement, ast.If) and text.line(span.start.line)[span.start.column :].startswith("elif")
    return _head(Position(span.start.line, span.start.column + 2 * is_elif), text, body[0], "")


def _head(start: Position, text: TreeText, first: ast.stmt | ast.pattern, before: str) -> Part:
    end = text.position(first)
    if isinstance(first, ast.stmt):
        end = min(end, Position(text.first_line(first), end.column))
    return Part(Span(start, end), before, "pass")


def _find_import_place(text: TreeText, body: Sequence[ast.stmt], before_line: int) -> ImportPlace:
    """The place of the import: after the imports at the top, before any other code."""
    count = count_leading(body, before_line)
    following = body[count] if count < len(body) else None
    if count == 0:
        assert following is not None
        return ImportPlace(How.LINE_BEFORE, text.span(following), text.first_line(following) - 1)
    leading = text.span(body[count - 1])
    last = text.last_line(body[count - 1])
    if following is not None and following.lineno == last:
        return ImportPlace(How.IN_FRONT, text.span(following))
    return ImportPlace(How.LINE_BEHIND, leading, last)


def count_leading(body: Sequence[ast.stmt], before_line: int) -> int:
    """How many statements come before the import: docstring, `__future__`, and the first block of imports.

    If that block does not import torch but a later top-level statement does, the import goes next to that statement,
    unless a proxy comes before it. The same holds if the first imports come later, after a `try` or an assignment.
    """
    count = 1 if body and is_docstring(body[0]) else 0
    count = _end_of_imports(body, count)
    if any(_imports_torch(statement) for statement in body[:count]):
        return count
    before = [position for position in range(count, len(body)) if body[position].lineno < before_line]
    later = [position for position in before if _imports_torch(body[position])]
    if not later and not any(isinstance(each, (ast.Import, ast.ImportFrom)) for each in body[:count]):
        later = [position for position in before if isinstance(body[position], (ast.Import, ast.ImportFrom))]
    return _end_of_imports(body, later[0]) if later else count


def _end_of_imports(body: Sequence[ast.stmt], start: int) -> int:
    while start < len(body) and isinstance(body[start], (ast.Import, ast.ImportFrom)):
        start += 1
    return start


def _imports_torch(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        return any(alias.name.partition(".")[0] == "torch" for alias in statement.names)
    return isinstance(statement, ast.ImportFrom) and (statement.module or "").partition(".")[0] == "torch"


def is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is only a string."""
    held = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(held, ast.Constant) and isinstance(held.value, str)


class TreeText:
    """Positions of a script's AST nodes in its text, in characters."""

    def __init__(self, source: SourceText) -> None:
        self._source = source

    def line(self, number: int) -> str:
        """A line with its line end; numbered from 1."""
        return self._source.lines[number - 1]

    def position(self, node: ast.stmt | ast.expr | ast.pattern | ast.ExceptHandler) -> Position:
        """Where a node starts."""
        return Position(node.lineno, self._source.column(node.lineno, node.col_offset))

    def span(self, node: ast.stmt | ast.expr) -> Span:
        """Where a node starts and ends."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        end = Position(node.end_lineno, self._source.column(node.end_lineno, node.end_col_offset))
        return Span(self.position(node), end)

    def spelled(self, node: ast.expr) -> str:
        """A target as the script spells it, on one line."""
        start, end = self.span(node)
        text = self.line(start.line)[start.column : end.column] if start.line == end.line else ast.unparse(node)
        # Python before 3.12 may report a wrong column for a node in an f-string.
        is_other = isinstance(node, ast.Name) and unicodedata.normalize("NFKC", text) != node.id
        return ast.unparse(node) if is_other else text

    def has_own_lines(self, statement: ast.stmt) -> bool:
        """Whether a statement shares its lines with nothing but a comment."""
        end = self.span(statement).end
        rest = self.line(end.line)[end.column :]
        return self.starts_line(statement) and _NOTHING_BUT_A_COMMENT.fullmatch(rest) is not None

    def starts_line(self, statement: ast.stmt) -> bool:
        """Whether nothing precedes a statement on its first line, and no backslash continues the line before."""
        start = self.position(statement)
        head = self.first_line(statement)
        before = self.line(head - 1) if head > 1 else ""
        return not self.line(start.line)[: start.column].strip() and not before.removesuffix(line_end(before)).endswith(
            "\\"
        )

    def first_line(self, statement: ast.stmt) -> int:
        """The line that a statement starts on; with decorators, the line of the first `@`."""
        decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
        if not decorators:
            return statement.lineno
        line = decorators[0].lineno
        while not self.line(line).lstrip().startswith("@"):  # an expression in brackets may start on a later line
            line -= 1
        return line

    def last_line(self, statement: ast.stmt) -> int:
        """The line that a statement ends on, including lines continued with backslashes."""
        last, column = self.span(statement).end
        while _LEADS_ON.match(self.line(last), column):
            last, column = last + 1, 0
        return last
