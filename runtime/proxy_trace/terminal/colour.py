"""Text for a terminal: colours of ours, and nothing else that would steer it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_MARK: Final = os.urandom(8).hex()
"""Stands for the character that begins a command to a terminal, where it is ours. No trace can know it."""

_MARKED: Final = re.compile(rf"<{_MARK}(\d+)>")


class Palette:
    """Marks text to be coloured, or leaves it as it is."""

    def __init__(self, *, enabled: bool) -> None:
        self._starts = {name: f"<{_MARK}{code}>" for name, code in _CODES.items()} if enabled else {}

    @classmethod
    def for_stream(cls, stream: TextIO) -> Palette:
        """Colours if `stream` is a terminal that shows them; NO_COLOR, then FORCE_COLOR decide where they are set."""
        if os.environ.get("NO_COLOR"):  # https://no-color.org
            return cls(enabled=False)
        if os.environ.get("FORCE_COLOR"):  # https://force-color.org
            return cls(enabled=True)
        return cls(enabled=stream.isatty() and os.environ.get("TERM") != "dumb")

    def paint(self, text: str, colour: str) -> str:
        """`text` in "bold", "dim", "red", "green", "yellow" or "cyan", once `for_terminal` has been at it."""
        start = self._starts.get(colour)
        return f"{start}{text}<{_MARK}0>" if start and text else text


def for_terminal(line: str) -> str:
    r"""A line as it is printed: what a `Palette` has marked in colours, and everything unprintable spelled out.

    A trace is data, whoever wrote it: escape sequences, line ends and characters that turn text around are shown as
    Python spells them (`\x1b`).
    """
    if not line.isprintable():
        line = "".join(each if each.isprintable() or each == "\t" else _spelled(each) for each in line)
    return _MARKED.sub("\x1b[\\1m", line) if _MARK in line else line


def visible_length(text: str) -> int:
    """How many characters are seen of text that a `Palette` may have marked."""
    return len(_MARKED.sub("", text)) if _MARK in text else len(text)


def json_for_terminal(text: str) -> str:
    r"""JSON that says the same with everything unprintable in its strings as `\u` escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else _spelled_in_json(each) for each in text)


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _spelled_in_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
