"""Text as people are shown it: a number with its noun, and nothing that would steer a terminal."""

from __future__ import annotations


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
