"""Instrumented text back to the original, by the source comment alone."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from instrumentor import emit
from instrumentor.errors import EditedSinceError, NotInstrumentedError, SourceDecodeError
from instrumentor.source.source_text import decode, line_end

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.source.source_text import SourceText

_MARK = b"# instrument: format="
# No script has more lines than nine digits say, and of thousands of digits Python makes no number.
_ADDED_LINE = re.compile(r"\+(\d{1,9})")
_ADDED_SPAN = re.compile(r"(\d{1,9}):(\d{1,9})-(\d{1,9})")


@dataclass(frozen=True)
class Undone:
    """The original's bytes and the path that the source comment records for it."""

    original: bytes
    recorded_source: str


@dataclass(frozen=True)
class SourceComment:
    """What the comment at the end of an instrumented script says.

    Attributes:
        source: the original's path.
        sha256: the digest of its bytes, in hex.
        lines: the added lines, from 1 in the instrumented text.
        spans: what was added within lines: the line, and the columns it starts and ends at.
        had_final_newline: whether the original ended with a line end.
    """

    source: str
    sha256: str
    lines: frozenset[int]
    spans: tuple[tuple[int, int, int], ...]
    had_final_newline: bool


def undo(source: bytes, *, source_name: str) -> Undone:
    """Take out what was added.

    Raises:
        NotInstrumentedError: `source` ends with no source comment.
        EditedSinceError: what is left does not have the recorded hash.
    """
    try:
        text = decode(source, source_name=source_name)
    except SourceDecodeError:
        raise _not_instrumented(source_name) from None
    comment = read_source_comment(text)
    if comment is None:
        raise _not_instrumented(source_name)
    original = text.encode(_without_additions(text, comment))
    if hashlib.sha256(original).hexdigest() != comment.sha256:
        raise EditedSinceError(
            "edited since it was instrumented, so the original cannot be restored; instrument the original "
            "({comment.source}) again, or remove the added lines and the last comment by hand",
            path=source_name,
            line=len(text.lines),
        )
    return Undone(original, comment.source)


def may_be_instrumented(source: bytes) -> bool:
    """Whether a source comment may stand in a script; a look that takes no decoding."""
    return _MARK in source


def original_of(source: bytes) -> bytes:
    """What a script was before it was instrumented; itself where it was not, or was edited since."""
    if not may_be_instrumented(source):
        return source
    try:
        return undo(source, source_name="").original
    except (NotInstrumentedError, EditedSinceError):
        return source


def _not_instrumented(source_name: str) -> NotInstrumentedError:
    return NotInstrumentedError(
        "not instrumented, so there is nothing to revert: it does not end with a `# instrument: format=1` comment;"
        " name a file that `instrument` wrote",
        path=source_name,
    )


def read_source_comment(text: SourceText) -> SourceComment | None:
    """Read the comment that ends an instrumented script; None where there is none."""
    last = text.lines[-1] if text.lines else ""
    found = emit.SOURCE_COMMENT.fullmatch(last.removesuffix(line_end(last)))
    if found is None:
        return None
    lines: set[int] = set()
    spans: list[tuple[int, int, int]] = []
    for entry in filter(None, found["added"].split(",")):
        if whole := _ADDED_LINE.fullmatch(entry):
            lines.add(int(whole[1]))
        elif part := _ADDED_SPAN.fullmatch(entry):
            spans.append((int(part[1]), int(part[2]), int(part[3])))
        else:
            return None
    recorded = recorded_source(found)
    if recorded is None:
        return None
    return SourceComment(recorded, found["sha256"], frozenset(lines), tuple(spans), not found["no_newline"])


def recorded_source(comment: re.Match[str]) -> str | None:
    """The path that a source comment records for the original; None where somebody has made no JSON of it."""
    try:
        return str(json.loads(comment["source"]))
    except ValueError:
        return None


def without_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """A text less some spans of it, which are in its order; what of one lies in those before it is gone already."""
    kept = []
    at = 0
    for start, end in spans:
        kept.append(text[at:start])
        at = max(at, end)
    kept.append(text[at:])
    return "".join(kept)


def _without_additions(text: SourceText, comment: SourceComment) -> tuple[str, ...]:
    lines = list(text.lines[:-1])
    spans: dict[int, list[tuple[int, int]]] = {}
    for line, start, end in sorted(comment.spans):
        if line <= len(lines):
            spans.setdefault(line, []).append((start, end))
    for line, of_line in spans.items():
        lines[line - 1] = without_spans(lines[line - 1], of_line)
    kept = [line for number, line in enumerate(lines, start=1) if number not in comment.lines]
    if not comment.had_final_newline and kept:
        kept[-1] = kept[-1].removesuffix(line_end(kept[-1]))
    return tuple(kept)
