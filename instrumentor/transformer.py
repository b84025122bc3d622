"""The transformer that puts proxies into libcst trees and reports what it added where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider, WhitespaceInclusivePositionProvider

from instrumentor import emit
from instrumentor.changes import Change, How, ImportPlace, Position, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from libcst.metadata import CodeRange

    from instrumentor.settings import Settings

_BESIDE = "; "


class Addition(NamedTuple):
    """Text that was added, in the coordinates of the new text; a whole line if it has no columns."""

    line: int
    start: int = -1
    end: int = -1

    @property
    def spelled(self) -> str:
        """In the notation of the source comment."""
        return f"+{self.line}" if self.start < 0 else f"{self.line}:{self.start}-{self.end}"


@dataclass(frozen=True)
class ProxyMaker:
    """Makes the nodes that are added.

    Attributes:
        alias: the name of the runtime module in the script.
        settings: the arguments of the proxy calls.
        can_encode: whether the script's encoding can represent a text.
    """

    alias: str
    settings: Settings
    can_encode: Callable[[str], bool]

    def around(self, value: cst.BaseExpression, change: Change) -> cst.Call | cst.GeneratorExp:
        """An expression that evaluates `value` and puts the result under a proxy."""
        return emit.make_proxy(
            value, self.alias, change.name, self.settings, can_encode=self.can_encode, is_each=change.is_each
        )

    def storing(self, change: Change) -> cst.Assign:
        """The statement that rebinds a target."""
        target = cst.parse_expression(change.target)
        value = self.around(target.deep_clone(), change)
        assert isinstance(target, cst.BaseAssignTargetExpression)
        return cst.Assign([cst.AssignTarget(target)], value)

    def line(self, change: Change) -> cst.SimpleStatementLine:
        """The same statement as a separate line."""
        return cst.SimpleStatementLine([self.storing(change)])

    def line_text(self, change: Change) -> str:
        """The text of that line, without indentation or line end."""
        return cst.Module([]).code_for_node(self.storing(change))


class ProxyTransformer(cst.CSTTransformer):
    """Puts proxies, and the import of the runtime, into a tree.

    Args:
        maker: makes the added nodes.
        changes: where proxies go, in the coordinates of the tree.
        import_place: where the import goes; None for none.
    """

    METADATA_DEPENDENCIES = (PositionProvider, WhitespaceInclusivePositionProvider)

    def __init__(self, maker: ProxyMaker, changes: Iterable[Change], import_place: ImportPlace | None = None) -> None:
        super().__init__()
        self._maker = maker
        self._around = {each.span: each for each in changes if each.how is How.AROUND}
        self._statements: dict[Position, list[Change]] = {}
        for each in changes:
            if each.how is not How.AROUND:
                self._statements.setdefault(each.span.start, []).append(each)
        self._import = import_place
        self._lines: list[cst.SimpleStatementLine] = []
        self._expressions: list[tuple[cst.BaseExpression, cst.BaseExpression]] = []
        self._beside: list[cst.BaseSmallStatement] = []
        self._in_front: list[cst.BaseSmallStatement] = []

    @property
    def count(self) -> int:
        """How many things were added."""
        return len(self._lines) + len(self._expressions) + len(self._beside) + len(self._in_front)

    def additions(self, changed: cst.Module) -> list[Addition]:
        """What was added, as it stands in the changed tree."""
        wrapper = MetadataWrapper(changed, unsafe_skip_copy=True)
        syntactic = wrapper.resolve(PositionProvider)
        whole = wrapper.resolve(WhitespaceInclusivePositionProvider)
        found = [Addition(syntactic[each].start.line) for each in self._lines]
        for node, value in self._expressions:
            outer, inner = _span(syntactic[node]), _span(whole[value])
            own = 1 if isinstance(node, cst.GeneratorExp) else 0  # its brackets are part of the node
            found.append(Addition(outer.start.line, outer.start.column - own, inner.start.column))
            found.append(Addition(outer.end.line, inner.end.column, outer.end.column + own))
        for small in self._beside:
            start, end = _span(syntactic[small])
            found.append(Addition(start.line, start.column - len(_BESIDE), end.column))
        for small in self._in_front:
            start, end = _span(syntactic[small])
            found.append(Addition(start.line, start.column, end.column + len(_BESIDE)))
        return sorted(found)

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]:
        """Change the expressions and statements at the given places."""
        if isinstance(updated_node, cst.BaseExpression):
            return self._leave_expression(original_node, updated_node)
        if isinstance(updated_node, cst.BaseSmallStatement):
            return self._leave_small_statement(original_node, updated_node)
        if isinstance(updated_node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            return self._leave_statement(original_node, updated_node)
        return updated_node

    def _leave_expression(self, original: cst.CSTNode, updated: cst.BaseExpression) -> cst.BaseExpression:
        code_range = self.get_metadata(PositionProvider, original, None)
        if code_range is None or not self._around:
            return updated
        spans = [_span(code_range)]
        # `ast` counts the brackets of a tuple or generator as part of the node, libcst never does.
        lefts, rights = getattr(original, "lpar", ()), getattr(original, "rpar", ())
        for left, right in zip(reversed(lefts), rights, strict=True):
            start = self.get_metadata(PositionProvider, left).start
            end = self.get_metadata(PositionProvider, right).end
            spans.append(Span(Position(start.line, start.column), Position(end.line, end.column)))
        inside = next((number for number, span in enumerate(spans) if span in self._around), None)
        if inside is None:
            return updated
        change = self._around.pop(spans[inside])
        outside = len(lefts) - inside
        value = updated.with_changes(lpar=updated.lpar[outside:], rpar=updated.rpar[:inside])
        made = self._maker.around(value, change)
        self._expressions.append((made, value))
        lpar, rpar = (*updated.lpar[:outside], *made.lpar), (*made.rpar, *updated.rpar[inside:])
        made = made.with_changes(lpar=lpar, rpar=rpar)
        self._expressions[-1] = (made, value)
        return made

    def _leave_small_statement(
        self, original: cst.CSTNode, updated: cst.BaseSmallStatement
    ) -> cst.BaseSmallStatement | cst.FlattenSentinel[cst.CSTNode]:
        start = self._start(original)
        added = [each for each in self._statements.get(start, ()) if each.how is How.BESIDE]
        if self._import is not None and self._import.how is How.IN_FRONT and self._import.span.start == start:
            statement = _parse_import(self._maker.alias).body[0].with_changes(semicolon=_semicolon())
            self._in_front.append(statement)
            return cst.FlattenSentinel([statement, updated])
        if not added:
            return updated
        row = [updated, *(self._maker.storing(each) for each in added)]
        last = updated.semicolon
        row = [*(each.with_changes(semicolon=_semicolon()) for each in row[:-1]), row[-1].with_changes(semicolon=last)]
        self._beside.extend(row[1:])
        return cst.FlattenSentinel(row)

    def _leave_statement(
        self, original: cst.CSTNode, updated: cst.SimpleStatementLine | cst.BaseCompoundStatement
    ) -> cst.CSTNode | cst.FlattenSentinel[cst.CSTNode]:
        start = self._start(original)
        here = self._statements.get(start, ())
        before = [self._maker.line(each) for each in here if each.how is How.LINE_BEFORE]
        behind = [self._maker.line(each) for each in here if each.how is How.LINE_BEHIND]
        place = self._import
        if place is not None and start <= place.span.start <= self._end(original):
            if place.how is How.LINE_BEFORE:
                before.insert(0, _parse_import(self._maker.alias))
            elif place.how is How.LINE_BEHIND:
                behind.insert(0, _parse_import(self._maker.alias))
        if not (before or behind):
            return updated
        if isinstance(updated, cst.SimpleStatementLine):
            newline = updated.trailing_whitespace.newline
            before, behind = ([_with_newline(each, newline) for each in lines] for lines in (before, behind))
        if before:
            before[0] = before[0].with_changes(leading_lines=updated.leading_lines)
            updated = updated.with_changes(leading_lines=[])
        self._lines.extend((*before, *behind))
        return cst.FlattenSentinel([*before, updated, *behind])

    def _start(self, node: cst.CSTNode) -> Position:
        return _span(self.get_metadata(PositionProvider, node)).start

    def _end(self, node: cst.CSTNode) -> Position:
        return _span(self.get_metadata(PositionProvider, node)).end


def transform(module: cst.Module, transformer: ProxyTransformer) -> cst.Module:
    """The changed tree."""
    return MetadataWrapper(module, unsafe_skip_copy=True).visit(transformer)


def take_out(lines: Sequence[str], additions: Sequence[Addition]) -> str:
    """The text without the additions within its lines."""
    kept = list(lines)
    for line, start, end in reversed(additions):
        kept[line - 1] = kept[line - 1][:start] + kept[line - 1][end:]
    return "".join(kept)


def _span(code_range: CodeRange) -> Span:
    start, end = code_range.start, code_range.end
    return Span(Position(start.line, start.column), Position(end.line, end.column))


def _semicolon() -> cst.Semicolon:
    return cst.Semicolon(whitespace_after=cst.SimpleWhitespace(" "))


def _parse_import(alias: str) -> cst.SimpleStatementLine:
    statement = cst.parse_statement(emit.render_import(alias))
    assert isinstance(statement, cst.SimpleStatementLine)
    return statement


def _with_newline(line: cst.SimpleStatementLine, newline: cst.Newline) -> cst.SimpleStatementLine:
    return line.with_changes(trailing_whitespace=cst.TrailingWhitespace(newline=cst.Newline(newline.value)))
