"""Judges whether what `proxy-trace summary BUGGY --against CORRECT` says first of a pair points at its bug."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bugs.places import TOLERANCE_LINES, line_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from bugs.pairs import Pair

SHOWN: Final = 5
"""Whoever reads more differences than these has stopped looking."""

_WORD: Final = re.compile(r"[A-Za-z_]\w{2,}|\d+\.\d+")


class Change(NamedTuple):
    """In what the two scripts of a pair differ.

    Attributes:
        buggy: the lines of the buggy script that the other has not, from 1, and the marked one.
        correct: the lines of the correct script that the buggy one has not; where it lacks some, those around.
        words: names and numbers that stand in such lines of one script, and not of the other.
    """

    buggy: set[int]
    correct: set[int]
    words: set[str]


def read_change(pair: Pair) -> Change:
    """Compare the two scripts of a pair."""
    texts = [_lines(pair.buggy), _lines(pair.correct)]
    numbers: list[set[int]] = [{pair.line}, set()]
    words: list[set[str]] = [set(), set()]
    for tag, *ranges in difflib.SequenceMatcher(None, texts[0], texts[1], autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for side, (first, last) in enumerate((ranges[:2], ranges[2:])):
            numbers[side] |= set(range(first + 1, last + 1)) or {first, first + 1}
            words[side] |= {word for line in texts[side][first:last] for word in _WORD.findall(line)}
    return Change(numbers[0], numbers[1], words[0] ^ words[1])


def is_shown(pair: Pair, deviations: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of the first deviations, as JSON has them, is at a line that differs, or names what differs there."""
    change = read_change(pair)
    return any(_points_at(each, pair, change) for each in deviations[:SHOWN])


def _points_at(deviation: Mapping[str, Any], pair: Pair, change: Change) -> bool:
    if _is_near(line_in(deviation["place"], pair.buggy.name), change.buggy):
        return True
    if _is_near(line_in(deviation["place_there"], pair.correct.name), change.correct):
        return True
    said = " ".join(deviation[field] for field in ("name", "aspect", "here", "there"))
    return not change.words.isdisjoint(_WORD.findall(said))


def _is_near(line: int | None, lines: Iterable[int]) -> bool:
    return line is not None and any(abs(line - each) <= TOLERANCE_LINES for each in lines)


def _lines(script: Path) -> list[str]:
    return script.read_text(encoding="utf-8").splitlines()
