"""Colours for a terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Palette:
    """Colours text, or leaves it as it is."""

    def __init__(self, *, enabled: bool) -> None:
        self._starts = {name: f"\x1b[{code}m" for name, code in _CODES.items()} if enabled else {}

    @classmethod
    def for_stream(cls, stream: TextIO) -> Palette:
        """Colours if `stream` is a terminal that shows them, and NO_COLOR is not set (https://no-color.org)."""
        is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        return cls(enabled=stream.isatty() and not is_plain)

    def paint(self, text: str, colour: str) -> str:
        """`text` in "bold", "dim", "red", "green", "yellow" or "cyan"."""
        start = self._starts.get(colour)
        return f"{start}{text}\x1b[0m" if start and text else text
