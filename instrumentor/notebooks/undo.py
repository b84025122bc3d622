"""Restores the original of an instrumented notebook, from the source comment alone."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

from instrumentor import emit
from instrumentor.errors import EditedSinceError, NotebookError, NotInstrumentedError
from instrumentor.notebooks.json_source import find_code_cells
from instrumentor.source.undo import Undone, recorded_source, without_spans

if TYPE_CHECKING:
    from instrumentor.notebooks.json_source import CellSource, Literal

# Nine digits suffice for any notebook, and Python refuses to convert thousands of digits.
_SPAN = re.compile(r"(\d+)-(\d+)")
_SPANS = re.compile(r"json:(?P<spans>(?:\d{1,9}-\d{1,9},)*)(?P<last>\d{1,9})")


class NotebookComment(NamedTuple):
    """The comment in an instrumented notebook.

    Attributes:
        source: the original's path.
        sha256: the digest of its bytes, in hex.
        added: the additions, in the comment's notation.
        literal: the JSON string that contains the comment.
    """

    source: str
    sha256: str
    added: str
    literal: Literal


def revert_notebook(source: bytes, *, source_name: str) -> Undone:
    """Restore the bytes that `instrument_notebook` was given.

    Raises:
        NotInstrumentedError: it has no source comment.
        EditedSinceError: it was edited or saved again after it was instrumented.
    """
    text = decode_notebook(source, source_name)
    comment = source_comment(read_cells(text, source_name))
    if comment is None:
        raise NotInstrumentedError(
            "not instrumented, so there is nothing to revert: no code cell ends with a"
            " `# instrument: format=1` comment; name a file that `instrument` wrote",
            path=source_name,
        )
    spans = _SPANS.fullmatch(comment.added)
    undone = ""
    if spans is not None:
        before = [(int(start), int(stop)) for start, stop in _SPAN.findall(spans["spans"])]
        undone, last = text, int(spans["last"])
        # If the comment is a separate string, it starts at the comma before it; otherwise it shares the closing quote.
        end = comment.literal.end if text[last : last + 1] == "," else comment.literal.end - 1
        undone = without_spans(text[:last] + text[end:], before)
    original = undone.encode("utf-8", "surrogatepass")
    if hashlib.sha256(original).hexdigest() != comment.sha256:
        raise EditedSinceError(
            "edited or saved since it was instrumented, so the original cannot be restored; instrument the original "
            "({comment.source}) again, or remove the added lines and the last comment by hand",
            path=source_name,
        )
    return Undone(original, comment.source)


def decode_notebook(source: bytes, source_name: str) -> str:
    """The text of a notebook.

    Raises:
        NotebookError: it is not UTF-8.
    """
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotebookError(
            f"byte {error.start} is not UTF-8, which notebooks require; save it again", path=source_name
        ) from None


def read_cells(text: str, source_name: str) -> list[CellSource]:
    """The code cells of a notebook's text.

    Raises:
        NotebookError: it is not a notebook of format 4, or not a Python notebook.
    """
    try:
        return find_code_cells(text)
    except (ValueError, RecursionError) as error:
        raise NotebookError(
            f"not a notebook that can be read ({error}); open and save it in Jupyter", path=source_name
        ) from None


def source_comment(cells: list[CellSource]) -> NotebookComment | None:
    """The source comment at the end of a code cell; None if there is none."""
    for cell in reversed(cells):
        if cell.literals:
            last = cell.literals[-1]
            found = emit.SOURCE_COMMENT.fullmatch(last.value.rpartition("\n")[2])
            if found is None or not found["added"].startswith("json:"):
                continue
            recorded = recorded_source(found)
            if recorded is not None:
                return NotebookComment(recorded, found["sha256"], found["added"], last)
    return None
