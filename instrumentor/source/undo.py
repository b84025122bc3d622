"""Restores the original of an instrumented script, from the source comment alone."""

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
# Nine digits suffice for any script's lines, and Python refuses to convert thousands of digits.
_ADDED_LINE = re.compile(r"\+(\d{1,9})")
_ADDED_SPAN = re.compile(r"(\d{1,9}):(\d{1,9})-(\d{1,9})")


@dataclass(frozen=True)
class Undone:
    """The original's bytes, and its path in the source comment."""

    original: bytes
    recorded_source: str


@dataclass(frozen=True)
class SourceComment:
    """The comment at the end of an instrumented script.

    Attributes:
        source: the original's path.
        sha256: the digest of its bytes, in hex.
        lines: the added lines, numbered from 1 in the instrumented text.
        spans: the additions within lines: the line, and the start and end columns.
        had_final_newline: whether the original ended with a line end.
    """

    source: str
    sha256: str
    lines: frozenset[int]
    spans: tuple[tuple[int, int, int], ...]
    had_final_newline: bool


def undo(source: bytes, *, source_name: str) -> Undone:
    """Remove the additions.

    Raises:
        NotInstrumentedError: `source` does not end with a source comment.
        EditedSinceError: the result does not have the recorded hash.
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
    """Whether a script may contain a source comment; a quick check that needs no decoding."""
    return _MARK in source


def original_of(source: bytes) -> bytes:
    """The original of a script; the script itself if it was not instrumented, or was edited since."""
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
    """Read the comment at the end of an instrumented script; None if there is none."""
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
    """The original's path in a source comment; None if an edit has made it invalid JSON."""
    try:
        return str(json.loads(comment["source"]))
    except ValueError:
        return None


def without_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text without the given spans, which are sorted; overlapping parts are removed once."""
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
