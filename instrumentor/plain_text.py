"""Text as people are shown it: a number with its noun, and nothing that would steer a terminal."""

from __future__ import annotations

import json


def count(number: int, noun: str) -> str:
    """A number with its noun: `1 model`, `2,000 models`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def escape_unprintable(text: str) -> str:
    """Spell out what would steer a terminal or turn text around: a script's bytes are data, not commands."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode("ascii") for char in text
    )


def escape_in_json(text: str) -> str:
    r"""JSON on one line that says the same with everything unprintable in its strings as `\u` escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
