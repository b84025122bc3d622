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
        """Colours if `stream` is a terminal that shows them; NO_COLOR, then FORCE_COLOR decide where they are set."""
        if os.environ.get("NO_COLOR"):  # https://no-color.org
            return cls(enabled=False)
        if os.environ.get("FORCE_COLOR"):  # https://force-color.org
            return cls(enabled=True)
        return cls(enabled=stream.isatty() and os.environ.get("TERM") != "dumb")

    def paint(self, text: str, colour: str) -> str:
        """`text` in "bold", "dim", "red", "green", "yellow" or "cyan"."""
        start = self._starts.get(colour)
        return f"{start}{text}\x1b[0m" if start and text else text
