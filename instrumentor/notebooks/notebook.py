"""Instruments notebooks: joins the code cells into one script, and puts the additions back into the cells.

The JSON text only gets insertions: outputs, metadata, key order, indentation and escapes stay the same, to the byte.
The source comment goes to the end of the last Python cell. It lists the spans of the insertions, in characters of the
file's text, so that undoing them needs no JSON at all.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import tokenize
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from instrumentor import emit
from instrumentor.errors import InstrumentError, InternalError
from instrumentor.instrument import Result, instrument_source
from instrumentor.notebooks.json_source import find_code_cells
from instrumentor.notebooks.undo import decode_notebook, read_cells, revert_notebook, source_comment
from instrumentor.source.source_text import decode, line_end, split_lines
from instrumentor.source.undo import read_source_comment

if TYPE_CHECKING:
    from instrumentor.notebooks.json_source import CellSource
    from instrumentor.resolve.project import Sources
    from instrumentor.settings import Settings

_MAGIC = re.compile(r"(?P<indent>[ \t]*)(?:(?P<target>[A-Za-z_][\w., ]*=[ \t]*)?[%!?].*|[\w.]+\?{1,2}[ \t]*)")
# Cell magics whose cell is still Python.
_PYTHON_CELLS = re.compile(r"%%(?:time|timeit|capture|prun|memit|mprun|debug|python3?)\b")


@dataclass(frozen=True)
class NotebookResult(Result):
    """The result of instrumenting a notebook.

    Attributes:
        cells: the first line of each code cell in the numbering of `decisions`, with the cell's number from 1.
    """

    cells: tuple[tuple[int, int], ...] = ()


class _Insertion(NamedTuple):
    """Text inserted into the JSON text before character `at`."""

    at: int
    text: str


def instrument_notebook(
    source: bytes,
    settings: Settings,
    *,
    source_name: str,
    sources: Sources | None = None,
) -> NotebookResult:
    """Put the models of a notebook under proxies; arguments and errors are those of `instrument_source`.

    Raises:
        NotebookError: it is not a notebook of format 4, or not a Python notebook.
    """
    text = decode_notebook(source, source_name)
    cells = read_cells(text, source_name)
    if source_comment(cells) is not None:
        revert_notebook(source, source_name=source_name)
        return NotebookResult(source, source, (), already_instrumented=True)
    script = _Script(cells, source_name)
    try:
        result = instrument_source(script.source, settings, source_name=source_name, sources=sources)
    except InstrumentError as error:
        if error.line is not None and error.path == source_name:
            number, line = script.place(error.line)
            error.path, error.line = f"{source_name}:cell {number}", line
        raise
    if not result.changed:
        return NotebookResult(source, source, result.decisions, already_instrumented=False, cells=script.starts)
    insertions = script.insertions(result.instrumented, text)
    instrumented = _apply(source, text, insertions, source_name)
    return NotebookResult(source, instrumented, result.decisions, already_instrumented=False, cells=script.starts)


class _Script:
    """The code cells of a notebook as one script, line for line, with the magics masked."""

    def __init__(self, cells: list[CellSource], source_name: str) -> None:
        self._source_name = source_name
        self._lines: list[str] = []
        starts = []
        # For each line of the script, the cell and the line in it.
        self._places: list[tuple[CellSource, int]] = []
        self._last: CellSource | None = None
        for cell in cells:
            starts.append((len(self._lines) + 1, cell.number))
            masked = _mask(cell.text)
            if any(not line.startswith("#") for line in masked):
                self._last = cell
            for index, line in enumerate(masked):
                self._lines.append(line.removesuffix(line_end(line)) + "\n")
                self._places.append((cell, index))
        self.starts = tuple(starts)
        # JSON may contain lone surrogates, which Python source cannot; within a string, any character will do.
        self.source = "".join(self._lines).encode("utf-8", "replace")

    def place(self, line: int) -> tuple[int, int]:
        """The cell number and the line in the cell, from 1, for a line of the script."""
        if not self._places:
            return 1, line
        cell, index = self._places[min(line, len(self._places)) - 1]
        return cell.number, index + 1

    def insertions(self, instrumented: bytes, text: str) -> list[_Insertion]:
        """The additions to the script as insertions into the JSON text, in text order."""
        changed = decode(instrumented, source_name=self._source_name)
        comment = read_source_comment(changed)
        assert comment is not None
        spans: dict[int, list[tuple[int, int]]] = {}
        for number, start, end in comment.spans:
            spans.setdefault(number, []).append((start, end))
        found: list[_Insertion] = []
        original = 0
        for number, line in enumerate(changed.lines[:-1], start=1):
            if number in comment.lines:
                found.append(self._new_line(original, line.rstrip("\r\n"), text))
                continue
            grown = 0
            for start, end in sorted(spans.get(number, [])):
                found.append(self._new_text(original, start - grown, line[start:end], text))
                grown += end - start
            original += 1
        return found

    def _new_line(self, after: int, added: str, text: str) -> _Insertion:
        """Insert a line after line `after` of the script (0: before the first)."""
        if after == 0:
            cell, index = self._places[0][0], -1
        else:
            cell, index = self._places[after - 1]
        lines = split_lines(cell.text)
        if not cell.is_list:
            at = _offset(text, cell.literals[0].start + 1, sum(map(len, lines[: index + 1])))
            is_open = index >= 0 and not line_end(lines[index])
            return _Insertion(at, _escape(f"\n{added}" if is_open else f"{added}\n", text))
        return _insert_element(cell, index, added, text)

    def _new_text(self, line: int, column: int, added: str, text: str) -> _Insertion:
        cell, index = self._places[line]
        position = sum(map(len, split_lines(cell.text)[:index])) + column
        for literal in cell.literals:
            if position < len(literal.value) or literal is cell.literals[-1]:
                return _Insertion(_offset(text, literal.start + 1, position), _escape(added, text))
            position -= len(literal.value)
        raise AssertionError("a cell with a statement has text")

    def comment_insertion(self, comment: str, text: str) -> _Insertion:
        """The insertion of the source comment, after the last line of the last Python cell."""
        cell = self._last
        assert cell is not None
        is_closed = cell.text.endswith("\n") or not cell.text
        if cell.is_list and cell.literals:
            return _insert_element(cell, len(cell.literals) - 1, comment, text, by_element=True)
        at = cell.literals[-1].end - 1
        return _Insertion(at, _escape(comment if is_closed else f"\n{comment}", text))


def _insert_element(cell: CellSource, index: int, added: str, text: str, *, by_element: bool = False) -> _Insertion:
    """Insert a line into a cell whose source is a list of strings, after line `index` (-1: before the first)."""
    literals = cell.literals
    if not by_element:
        element = _element_of_line(cell, index)
        if element is None:  # strings that are not lines: insert into the one that the line ends in
            position = sum(map(len, split_lines(cell.text)[: index + 1]))
            for literal in literals:
                if position <= len(literal.value):
                    return _Insertion(_offset(text, literal.start + 1, position), _escape(f"{added}\n", text))
                position -= len(literal.value)
        index = index if element is None else element
    gap = _gap(cell, text)
    if index < 0:
        return _Insertion(literals[0].start, f"{_quote(f'{added}{chr(10)}', text)},{gap}")
    before = literals[index]
    if before.value.endswith("\n"):
        closing = "" if index == len(literals) - 1 else "\n"
        return _Insertion(before.end, f",{gap}{_quote(added + closing, text)}")
    # A cell's last line has no line end; it gets one, and the added line has none.
    return _Insertion(before.end - 1, f'\\n",{gap}{_quote(added, text)[:-1]}')


def _element_of_line(cell: CellSource, index: int) -> int | None:
    """The string that ends where line `index` ends; -1 for before the first; None if there is none."""
    end = sum(map(len, split_lines(cell.text)[: index + 1]))
    total = 0
    for position, literal in enumerate(cell.literals):
        if total == end:
            return position - 1
        total += len(literal.value)
    return len(cell.literals) - 1 if total == end else None


def _gap(cell: CellSource, text: str) -> str:
    """The whitespace between the comma and the next string, as in the notebook."""
    if len(cell.literals) > 1:
        return text[cell.literals[0].end : cell.literals[1].start].partition(",")[2]
    return text[text.rindex("[", 0, cell.literals[0].start) + 1 : cell.literals[0].start]


def _quote(value: str, text: str) -> str:
    return json.dumps(value, ensure_ascii=text.isascii())


def _escape(value: str, text: str) -> str:
    return _quote(value, text)[1:-1]


def _offset(text: str, start: int, count: int) -> int:
    """The position after `count` characters of a JSON string whose content starts at `start`."""
    at = start
    while count > 0:
        width = 1
        if text[at] == "\\":
            width = 6 if text[at + 1] == "u" else 2
            value = json.loads(f'"{text[at : at + width]}"')
            # A character outside the basic plane is written as two escapes.
            if "\ud800" <= value <= "\udbff" and text[at + width : at + width + 2] == "\\u":
                width *= 2
        at += width
        count -= 1
    return at


def _apply(source: bytes, text: str, insertions: list[_Insertion], source_name: str) -> bytes:
    """Apply the insertions, and the comment that lists them.

    Raises:
        InternalError: undoing them does not restore the original.
    """
    ordered = sorted(insertions, key=lambda each: each.at)
    grown = 0
    spans = []
    changed = text
    for at, added in ordered:
        start = at + grown
        changed = changed[:start] + added + changed[start:]
        spans.append(f"{start}-{start + len(added)},")
        grown += len(added)
    after = _Script(find_code_cells(changed), source_name)
    digest = hashlib.sha256(source).hexdigest()
    probe = after.comment_insertion("#", changed)
    added_spans = [f"json:{''.join(spans)}{probe.at}"]
    comment = emit.render_source_comment(source_name, digest, added_spans, had_final_newline=True)
    insertion = after.comment_insertion(comment, changed)
    instrumented = (changed[: insertion.at] + insertion.text + changed[insertion.at :]).encode()
    try:
        undone = revert_notebook(instrumented, source_name=source_name).original
    except InstrumentError as error:
        raise _internal(source_name, str(error)) from error
    if undone != source:
        raise _internal(source_name, "reverting does not restore the original")
    return instrumented


def _internal(source_name: str, detail: str) -> InternalError:
    return InternalError(
        f"the instrumented notebook did not pass its check ({detail}), so nothing is written; this is a bug in "
        "instrument: please report it with the notebook",
        path=source_name,
    )


def _mask(cell: str) -> list[str]:
    """The lines of a cell, with each line that is not Python replaced by one that does nothing."""
    lines = list(split_lines(cell))
    if not lines or _parses(cell):
        return lines
    if (first := cell.lstrip()).startswith("%%"):
        if not _PYTHON_CELLS.match(first):
            return [_comment(line) for line in lines]
        start = next(index for index, line in enumerate(lines) if line.strip())
        lines[start] = _comment(lines[start])
    bodies = [line.removesuffix(line_end(line)) for line in lines]
    masked: list[str] = []
    while (start := len(masked)) < len(lines):
        magic = _MAGIC.fullmatch(bodies[start])
        if magic is None:
            masked.extend(lines[start : _end_of_statement(bodies, start)])
            continue
        masked.append(_stand_in(magic, lines[start]))
        while bodies[len(masked) - 1].endswith("\\") and len(masked) < len(lines):
            masked.append(_comment(lines[len(masked)]))
    return masked


def _end_of_statement(bodies: list[str], start: int) -> int:
    """The end of the lines that brackets, strings or backslashes join to the one at `start`.

    IPython recognizes no magics within them. If this is not Python, they are all remaining lines.
    """
    # Replace lone surrogates, since not every tokenizer accepts them.
    left = (f"{bodies[at]}\n".encode("utf-8", "replace").decode() for at in range(start, len(bodies)))
    try:
        has_begun = False
        for token in tokenize.generate_tokens(left.__next__):
            if token.type == tokenize.NEWLINE or (token.type == tokenize.NL and not has_begun):
                return start + token.start[0]
            has_begun = has_begun or token.type != tokenize.COMMENT
    except (tokenize.TokenError, SyntaxError):
        pass
    return len(bodies)


def _stand_in(magic: re.Match[str], line: str) -> str:
    """The no-op that replaces a magic: a comment, or a statement if a block or a name may need one."""
    indent = magic["indent"]
    if magic["target"]:
        return f"{indent}{magic['target'].strip()} None{line_end(line)}"
    return f"{indent}pass{line_end(line)}" if indent else _comment(line)


def _comment(line: str) -> str:
    return "#" + line_end(line)


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
