"""Decisions to text: the insertions that put the planned proxies into a script."""

from __future__ import annotations

import ast
import hashlib
import re
import unicodedata
import warnings
from typing import TYPE_CHECKING

from instrumentor import emit
from instrumentor.changes import Changes, How, TreeText, count_leading, find_changes, is_docstring
from instrumentor.errors import InstrumentError, InternalError
from instrumentor.source.edits import NewLine, NewText, apply_edits
from instrumentor.source.nodes import walk
from instrumentor.source.source_text import line_end, split_lines
from instrumentor.source.undo import undo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from instrumentor.changes import Position
    from instrumentor.decide import Plan
    from instrumentor.settings import Settings
    from instrumentor.source.source_text import SourceText

_STAR_IMPORT = re.compile(r"import[\s\\]*\*")
# The order at the start of a statement: search folders for modules, the import, then the text of proxies.
_FIRST, _IN_FRONT = (-2,), (-1,)


def rewrite(
    original: bytes,
    source: SourceText,
    tree: ast.Module,
    changes: Changes | None,
    settings: Settings,
    *,
    source_name: str,
    search_folders: Sequence[str] = (),
) -> bytes:
    """Write the planned proxies into a script; check the result with `check_rewritten`.

    Args:
        original: the script's bytes.
        source: the decoded script.
        tree: the parsed script.
        changes: where the planned proxies go; None if there are none.
        settings: the arguments of the proxy calls.
        source_name: the path that the source comment records.
        search_folders: folders, relative to the script's own, to add to its module search path.

    Returns:
        The new bytes; `original` itself if nothing is planned.
    """
    if changes is None and not search_folders:
        return original
    lines = source.lines if source.has_final_newline else (*source.lines[:-1], source.lines[-1] + source.newline)
    edits = [_search_edit(source, tree, folder) for folder in reversed(search_folders)]
    if changes is not None:
        edits.extend(_proxy_edits(source, changes, settings))
    edited = apply_edits(lines, edits)
    comment = emit.render_source_comment(
        source_name,
        hashlib.sha256(original).hexdigest(),
        edited.added,
        had_final_newline=source.has_final_newline,
    )
    return source.encode((*edited.lines, comment + source.newline))


def plan_changes(source: SourceText, tree: ast.Module, plan: Plan) -> Changes | None:
    """Find where in a script's text the planned proxies go; None if there are none."""
    return find_changes(source, tree, plan.wraps, _unused_name(source.text, tree)) if plan.wraps else None


def _proxy_edits(source: SourceText, changes: Changes, settings: Settings) -> Iterator[NewLine | NewText]:
    """The insertions for the given changes."""
    # Importing libcst takes 0.15 s, which a script without models should not cost.
    from instrumentor.splicing import edits_within
    from instrumentor.transformer import ProxyMaker

    maker = ProxyMaker(changes.alias, settings, source.can_encode)
    yield _import_edit(source, changes)
    for change in changes.proxies:
        if change.part is None:
            yield _new_line(source, change.span.start, change.after_line, maker.line_text(change))
    yield from edits_within(source, changes.proxies, maker)


def _import_edit(source: SourceText, changes: Changes) -> NewLine | NewText:
    text = emit.render_import(changes.alias)
    how, (start, _), after_line = changes.import_place
    if how is How.IN_FRONT:
        return NewText(start.line, start.column, f"{text}; ", _IN_FRONT)
    beside = after_line + 1 if how is How.LINE_BEFORE else after_line
    return NewLine(after_line, text + _newline_of(source, beside))


def _new_line(source: SourceText, start: Position, after_line: int, text: str) -> NewLine:
    # A form feed resets the indentation to zero; only what follows it counts.
    indentation = source.lines[start.line - 1][: start.column].rpartition("\f")[2]
    beside = after_line + 1 if after_line < start.line else after_line
    return NewLine(after_line, f"{indentation}{text}{_newline_of(source, beside)}")


def _newline_of(source: SourceText, line: int) -> str:
    return line_end(source.lines[line - 1]) or source.newline


def _search_edit(source: SourceText, tree: ast.Module, folder: str) -> NewLine | NewText:
    """The insertion that adds a folder to the module search path, before any import that needs it."""
    text = emit.render_search_path(folder, can_encode=source.can_encode)
    body, places = tree.body, TreeText(source)
    count = 1 if body and is_docstring(body[0]) else 0
    while count < len(body) and _is_future_import(body[count]):
        count += 1
    if count == len(body):
        return NewLine(len(source.lines) if body else 0, text + source.newline)
    line = places.first_line(body[count])
    if count and places.last_line(body[count - 1]) >= line:
        return NewText(line, places.position(body[count]).column, f"{text}; ", _FIRST)
    return NewLine(line - 1, text + _newline_of(source, line))


def _unused_name(text: str, tree: ast.Module) -> str:
    """A name for the runtime module that the script does not use and that no star import can bind."""
    # A text search rules out most scripts. NFKC, because Python normalizes identifiers.
    may_have_names = emit.PROXY in unicodedata.normalize("NFKC", text)
    may_have_star = _STAR_IMPORT.search(text) is not None
    nodes = walk(tree) if may_have_names or may_have_star else []
    names = _identifiers(nodes) if may_have_names else set()
    return emit.unused_name(names, hidden=may_have_star and _has_late_star_import(tree, nodes))


def _identifiers(nodes: Iterable[ast.AST]) -> set[str]:
    """Every name that a script binds or uses, except attribute names."""
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
    """Whether there is a star import after the imports at the top, which could rebind a plain name."""
    leading = set(map(id, tree.body[: count_leading(tree.body, len(tree.body) and tree.body[-1].lineno + 1)]))
    return any(
        isinstance(node, ast.ImportFrom) and id(node) not in leading and any(each.name == "*" for each in node.names)
        for node in nodes
    )


def _is_future_import(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__" and not statement.level


def check_rewritten(original: bytes, instrumented: bytes, source: SourceText, *, source_name: str) -> None:
    """Check that the result of `rewrite` is Python and can be undone, so that no wrong text is ever written.

    Args:
        original: the script's bytes.
        instrumented: the new bytes; not checked if they are the original object itself.
        source: the decoded original.
        source_name: the path that the source comment records.

    Raises:
        InternalError: the result cannot be parsed, or undone exactly.
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
        raise _internal(source_name, "reverting does not restore the original")


def _internal(source_name: str, detail: str) -> InternalError:
    return InternalError(
        f"the instrumented text did not pass its check ({detail}), so nothing is written; this is a bug in "
        "instrument: please report it with the script, and exclude the line with `# instrument: skip` for now",
        path=source_name,
    )
