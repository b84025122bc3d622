"""Maps the lines of an instrumented file to the original's, by its source comment."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

_COMMENT = re.compile(
    rb'# instrument: format=1 source=("(?:[^"\\]|\\.)*") sha256=([0-9a-f]{64}) added=(\S*)(?: eof=none)?[ \t]*'
)
_TAIL_BYTES = 1 << 16


class SourceMap(NamedTuple):
    """The original's path as in the comment, the sorted numbers of lines added whole, and the original's SHA-256."""

    source: str
    added_lines: tuple[int, ...]
    sha256: str

    def original_line(self, line: int) -> int:
        """The original's line for `line` of the instrumented file; an added line maps to the line before it."""
        return max(1, line - bisect_right(self.added_lines, line))


def parse_source_comment(text: bytes) -> SourceMap | None:
    """Parse the comment at the end of an instrumented file; None if the last line is no such comment."""
    lines = text.rstrip(b"\r\n").replace(b"\r", b"\n").rsplit(b"\n", 1)
    found = _COMMENT.fullmatch(lines[-1])
    if found is None:
        return None
    added = found[3].decode("ascii").split(",")
    whole_lines = tuple(sorted(int(edit[1:]) for edit in added if edit.startswith("+")))
    return SourceMap(json.loads(found[1]), whole_lines, found[2].decode("ascii"))


def read_source_map(path: str) -> SourceMap | None:
    """The map of the file at `path`; None if it is not instrumented or cannot be read."""
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            return parse_source_comment(file.read())
    except (OSError, ValueError):
        return None
