"""Text for a terminal: our colours, and no other control characters."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_MARK: Final = os.urandom(8).hex()
"""Stands for the escape character in our own colour codes. Random, so no trace can contain it."""

_MARKED: Final = re.compile(rf"<{_MARK}(\d+)>")


class Palette:
    """Marks text to be coloured, or leaves it unchanged."""

    def __init__(self, *, enabled: bool) -> None:
        self._starts = {name: f"<{_MARK}{code}>" for name, code in _CODES.items()} if enabled else {}

    @classmethod
    def for_stream(cls, stream: TextIO) -> Palette:
        """Colours if `stream` is a terminal that shows them. NO_COLOR, then FORCE_COLOR, take precedence."""
        if os.environ.get("NO_COLOR"):  # https://no-color.org
            return cls(enabled=False)
        if os.environ.get("FORCE_COLOR"):  # https://force-color.org
            return cls(enabled=True)
        return cls(enabled=stream.isatty() and os.environ.get("TERM") != "dumb")

    def paint(self, text: str, colour: str) -> str:
        """`text` in "bold", "dim", "red", "green", "yellow" or "cyan", after `for_terminal`."""
        start = self._starts.get(colour)
        return f"{start}{text}<{_MARK}0>" if start and text else text


def for_terminal(line: str) -> str:
    r"""A line to print: marks of a `Palette` become colours, and unprintable characters are escaped.

    A trace is untrusted. Escape sequences, line ends and characters that change the text direction are shown as in
    Python (`\x1b`).
    """
    if not line.isprintable():
        line = "".join(each if each.isprintable() or each == "\t" else _spelled(each) for each in line)
    return _MARKED.sub("\x1b[\\1m", line) if _MARK in line else line


def visible_length(text: str) -> int:
    """The number of visible characters of text that a `Palette` may have marked."""
    return len(_MARKED.sub("", text)) if _MARK in text else len(text)


def json_for_terminal(text: str) -> str:
    r"""Equivalent JSON, with unprintable characters in strings as `\u` escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else _spelled_in_json(each) for each in text)


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _spelled_in_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
