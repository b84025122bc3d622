"""What a finder of patterns in source code gives."""

from __future__ import annotations

from typing import NamedTuple


class Pattern(NamedTuple):
    """A pattern in the source of a program.

    Attributes:
        what: its kind.
        line: the line at fault.
        names: the expressions in it, as they are written.
        other: another line that belongs to it; 0 if there is none.
    """

    what: str
    line: int
    names: tuple[str, ...]
    other: int = 0
