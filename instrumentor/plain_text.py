"""Text for display: a number with its noun, and no characters that control a terminal."""

from __future__ import annotations

import json


def count(number: int, noun: str) -> str:
    """A number with its noun: `1 model`, `2,000 models`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def escape_unprintable(text: str) -> str:
    """Escape characters that control a terminal or reverse text: a script's bytes are data, not commands."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode("ascii") for char in text
    )


def escape_in_json(text: str) -> str:
    r"""The same JSON, on one line, with unprintable characters in its strings as `\u` escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
