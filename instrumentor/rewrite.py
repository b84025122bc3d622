"""Decisions to text: the insertions that put the planned proxies into a script."""

from __future__ import annotations

import ast
import hashlib
import re
import unicodedata
import warnings
from typing import TYPE_CHECKING

from instrumentor import emit
from instrumentor.analysis.placement import Place
from instrumentor.errors import InstrumentError, InternalError
from instrumentor.source.edits import NewLine, NewText, apply_edits
from instrumentor.source.nodes import walk
from instrumentor.source.source_text import line_end, split_lines
from instrumentor.source.undo import undo

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from instrumentor.decide import Plan, Wrap
    from instrumentor.settings import Settings
    from instrumentor.source.source_text import SourceText

_NOTHING_BUT_A_COMMENT = re.compile(r"\s*(?:#.*)?", re.DOTALL)
_LEADS_ON = re.compile(r"[\s;]*\\[\r\n]")
_STAR_IMPORT = re.compile(r"import[\s\\]*\*")
# At one place in a line: what ends an expression stands before what starts one, and both before a new statement.
_AFTER, _BEFORE = 0, 1


def rewrite(
    original: bytes,
    source: SourceText,
    tree: ast.Module,
    plan: Plan,
    settings: Settings,
    *,
    source_name: str,
    search_folders: Sequence[str] = (),
) -> bytes:
    """Write the planned proxies into a script; what comes back is to be checked by `check_rewritten`.

    Args:
        original: the script's bytes.
        source: the same, decoded.
        tree: the same, parsed.
        plan: what to wrap.
        settings: the arguments of the proxy calls.
        source_name: what the source comment records.
        search_folders: folders, relative to the script's own, in which it is to look modules up.

    Returns:
        The new bytes; `original` itself where nothing is planned.
    """
    if not plan.wraps and not search_folders:
        return original
    writer = _Writer(source, tree, settings)
    for wrap in plan.wraps:
        writer.add(wrap)
    lines = source.lines if source.has_final_newline else (*source.lines[:-1], source.lines[-1] + source.newline)
    imports = [writer.import_edit(plan.wraps)] if plan.wraps else []
    edited = apply_edits(lines, [*map(writer.search_edit, reversed(search_folders)), *imports, *writer.edits])
    comment = emit.render_source_comment(
        source_name,
        hashlib.sha256(original).hexdigest(),
        edited.added,
        had_final_newline=source.has_final_newline,
    )
    return source.encode((*edited.lines, comment + source.newline))


class _Writer:
    """Turns places in the tree into insertions in the text."""

    def __init__(self, source: SourceText, tree: ast.Module, settings: Settings) -> None:
        self._source = source
        self._tree = tree
        self._settings = settings
        self._alias = _unused_name(source.text, tree)
        self.edits: list[NewLine | NewText] = []

    def add(self, wrap: Wrap) -> None:
        """Add the insertions for one proxy."""
        placement = wrap.placement
        target = placement.target
        if isinstance(placement.statement, ast.For) and target is not None and placement.is_each:
            self._add_in_loop(wrap, placement.statement.body[0], target)
            return
        wrapping = self._wrapping(wrap, is_each=placement.is_each)
        if placement.place is Place.LINE and target is not None:
            text = self._storing(target, wrapping, placement.part)
            if self._has_own_lines(placement.statement):
                self._add_line_after(placement.statement, text)
                return
            if not placement.can_inline:
                line, column = self._end(placement.statement)
                self.edits.append(NewText(line, column, f"; {text}", (_AFTER, line, column)))
                return
        self._add_around(placement.expression, wrapping)

    def _add_in_loop(self, wrap: Wrap, first: ast.stmt, target: ast.expr) -> None:
        """Add a line before the first statement of a loop; around what it goes over where that is on the loop's own."""
        if self._starts_line(first):
            self._add_line_before(first, self._storing(target, self._wrapping(wrap, is_each=False)))
        else:
            self._add_around(wrap.placement.expression, self._wrapping(wrap, is_each=True))

    def _wrapping(self, wrap: Wrap, *, is_each: bool) -> emit.Wrapping:
        return emit.render_wrapping(
            self._alias, wrap.name, self._settings, can_encode=self._source.can_encode, is_each=is_each
        )

    def _storing(self, target: ast.expr, wrapping: emit.Wrapping, part: str = "") -> str:
        spelled = f"{self._text(target)}{part}"
        return f"{spelled} = {wrapping.before}{spelled}{wrapping.after}"

    def _add_line_after(self, statement: ast.stmt, text: str) -> None:
        last = statement.end_lineno or statement.lineno
        newline = line_end(self._line(last)) or self._source.newline
        self.edits.append(NewLine(last, f"{self._indentation(statement)}{text}{newline}"))

    def _add_line_before(self, statement: ast.stmt, text: str) -> None:
        first = self._first_line(statement)
        newline = line_end(self._line(first)) or self._source.newline
        self.edits.append(NewLine(first - 1, f"{self._indentation(statement)}{text}{newline}"))

    def _indentation(self, statement: ast.stmt) -> str:
        first, column = self._start(statement)
        # A form feed sets the indentation back to nothing; what follows it is what counts.
        return self._line(first)[:column].rpartition("\f")[2]

    def _add_around(self, expression: ast.expr, wrapping: emit.Wrapping) -> None:
        start, end = self._start(expression), self._end(expression)
        # Of expressions that start at one place the longer is the outer one; of those that end there, the later.
        self.edits.append(NewText(*start, wrapping.before, (_BEFORE, -end[0], -end[1])))
        self.edits.append(NewText(*end, wrapping.after, (_AFTER, -start[0], -start[1])))

    def import_edit(self, wraps: Sequence[Wrap]) -> NewLine | NewText:
        """The insertion of the import: after the imports at the top, and before whatever else runs there."""
        text = emit.render_import(self._alias)
        body = self._tree.body
        count = _count_leading(body, min(wrap.placement.statement.lineno for wrap in wraps))
        following = body[count] if count < len(body) else None
        if count == 0:
            assert following is not None
            line = self._first_line(following)
            return NewLine(line - 1, text + (line_end(self._line(line)) or self._source.newline))
        last = self._last_line(body[count - 1])
        if following is not None and following.lineno == last:
            line, column = self._start(following)
            return NewText(line, column, f"{text}; ", (_BEFORE, -len(self._source.lines) - 1))
        return NewLine(last, text + (line_end(self._line(last)) or self._source.newline))

    def search_edit(self, folder: str) -> NewLine | NewText:
        """The insertion that adds a folder to those where modules are looked up: before any import that needs it."""
        text = emit.render_search_path(folder, can_encode=self._source.can_encode)
        body = self._tree.body
        count = 1 if body and _is_docstring(body[0]) else 0
        while count < len(body) and _is_future_import(body[count]):
            count += 1
        if count == len(body):
            return NewLine(len(self._source.lines) if body else 0, text + self._source.newline)
        line, column = self._start(body[count])
        line = self._first_line(body[count])
        if count and self._last_line(body[count - 1]) >= line:
            return NewText(line, column, f"{text}; ", (_BEFORE, -len(self._source.lines) - 2))
        return NewLine(line - 1, text + (line_end(self._line(line)) or self._source.newline))

    def _has_own_lines(self, statement: ast.stmt) -> bool:
        """Whether nothing but a comment shares the lines of a statement."""
        last, column = self._end(statement)
        rest = self._line(last)[column:]
        return self._starts_line(statement) and _NOTHING_BUT_A_COMMENT.fullmatch(rest) is not None

    def _starts_line(self, statement: ast.stmt) -> bool:
        """Whether nothing stands before a statement on its first line, nor leads over to that."""
        first, column = self._start(statement)
        head = self._first_line(statement)
        before = self._line(head - 1) if head > 1 else ""
        return not self._line(first)[:column].strip() and not before.removesuffix(line_end(before)).endswith("\\")

    def _first_line(self, statement: ast.stmt) -> int:
        """The line that a statement starts on; for one with decorators that of the first `@`."""
        decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
        if not decorators:
            return statement.lineno
        line = decorators[0].lineno
        while not self._line(line).lstrip().startswith("@"):  # what is in brackets may start on a later line
            line -= 1
        return line

    def _last_line(self, statement: ast.stmt) -> int:
        """The line that a statement ends on, or the one that backslashes behind it lead to."""
        last, column = self._end(statement)
        while _LEADS_ON.match(self._line(last), column):
            last, column = last + 1, 0
        return last

    def _text(self, node: ast.expr) -> str:
        """A target as the script spells it, on one line."""
        (first, start), (last, end) = self._start(node), self._end(node)
        text = self._line(first)[start:end] if first == last else ast.unparse(node)
        # Of what stands in an f-string, Python before 3.12 may give another column.
        is_other = isinstance(node, ast.Name) and unicodedata.normalize("NFKC", text) != node.id
        return ast.unparse(node) if is_other else text

    def _start(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        return node.lineno, self._source.column(node.lineno, node.col_offset)

    def _end(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return node.end_lineno, self._source.column(node.end_lineno, node.end_col_offset)

    def _line(self, number: int) -> str:
        return self._source.lines[number - 1]


def _unused_name(text: str, tree: ast.Module) -> str:
    """A name for the runtime module that neither the script uses nor an import by `*` may bring."""
    # Most texts show that none does. Python takes names in some other letters for those in plain ones.
    may_have_names = emit.PROXY in unicodedata.normalize("NFKC", text)
    may_have_star = _STAR_IMPORT.search(text) is not None
    nodes = walk(tree) if may_have_names or may_have_star else []
    names = _identifiers(nodes) if may_have_names else set()
    return emit.unused_name(names, hidden=may_have_star and _has_late_star_import(tree, nodes))


def _identifiers(nodes: Iterable[ast.AST]) -> set[str]:
    """Every name that a script binds or uses, attributes of other things aside."""
    found: set[str] = set()
    for node in nodes:
        for field in ("id", "arg", "name", "rest", "asname"):
            held = getattr(node, field, None)
            if isinstance(held, str):
                found.add(held.partition(".")[0])
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            found.update(node.names)
    return found


def _has_late_star_import(tree: ast.Module, nodes: Iterable[ast.AST]) -> bool:
    """Whether anything is imported by `*` behind the imports at the top, which could rebind a plain name."""
    leading = set(map(id, tree.body[: _count_leading(tree.body, len(tree.body) and tree.body[-1].lineno + 1)]))
    return any(
        isinstance(node, ast.ImportFrom) and id(node) not in leading and any(each.name == "*" for each in node.names)
        for node in nodes
    )


def _count_leading(body: Sequence[ast.stmt], before_line: int) -> int:
    """How many statements come before the import: docstring, `__future__`, and the first run of imports.

    Where that run does not import torch but a later statement at the top does, the import goes beside that one, as
    long as no proxy comes before it. So it does where the first imports come later, behind a `try` or an assignment.
    """
    count = 1 if body and _is_docstring(body[0]) else 0
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


def _is_future_import(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__" and not statement.level


def _is_docstring(statement: ast.stmt) -> bool:
    held = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(held, ast.Constant) and isinstance(held.value, str)


def check_rewritten(original: bytes, instrumented: bytes, source: SourceText, *, source_name: str) -> None:
    """Make sure that what `rewrite` gave is Python and can be undone: no wrong text is ever written anywhere.

    Args:
        original: the script's bytes.
        instrumented: the new bytes; what is the very same as the original needs no look.
        source: the original, decoded.
        source_name: what the source comment records.

    Raises:
        InternalError: the result does not stand up to being undone or parsed.
    """
    if instrumented is original:
        return
    try:
        undone = undo(instrumented, source_name=source_name).original
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse("".join(split_lines(instrumented[len(source.bom) :].decode(source.encoding))))
    except (InstrumentError, SyntaxError, ValueError) as error:
        raise _internal(source_name, str(error)) from error
    if undone != original:
        raise _internal(source_name, "undoing does not give the original")


def _internal(source_name: str, detail: str) -> InternalError:
    return InternalError(
        f"the instrumented text did not pass its check ({detail}), so nothing is written; this is a mistake of this"
        " tool: please report it with the script, and exclude the line with `# instrument: skip` meanwhile",
        path=source_name,
    )
