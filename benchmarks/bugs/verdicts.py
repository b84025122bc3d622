"""Judges what was found in the runs of pairs: which bugs are named, and where, and which alarms are false."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bugs.places import TOLERANCE_LINES, line_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bugs.pairs import Pair
    from bugs.traced_run import Finding

VERDICTS: Final = ("named", "noted", "flagged", "missed", "failed")
"""Of a buggy script: an error or a warning has the right code; only a note has; there is another error or warning;
there is none; it did not run."""


@dataclass(frozen=True)
class Verdict:
    """What was found in the two scripts of a pair.

    Attributes:
        pair: the name of the pair.
        area: the area of its bug.
        half: one of `HALVES`.
        expected: the code of its bug.
        verdict: one of `VERDICTS`, of the buggy script.
        is_placed: whether a finding with the right code names the right place.
        is_shown: whether what comes first in `summary BUGGY --against CORRECT` points at the bug.
        found: "CODE at PLACE" of each error, warning and note in the buggy script.
        false_alarms: the same of each error and warning in the correct one.
        problem: why a script did not run, or "".
    """

    pair: str
    area: str
    half: str
    expected: str
    verdict: str
    is_placed: bool = False
    is_shown: bool = False
    found: tuple[str, ...] = ()
    false_alarms: tuple[str, ...] = ()
    problem: str = ""


@dataclass
class Counts:
    """How many pairs there are of each sort."""

    pairs: int = 0
    placed: int = 0
    shown: int = 0
    false_alarms: int = 0
    of: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))

    def add(self, verdict: Verdict) -> None:
        """Count one more pair."""
        self.pairs += 1
        self.placed += verdict.is_placed
        self.shown += verdict.is_shown
        self.false_alarms += bool(verdict.false_alarms)
        self.of[verdict.verdict] += 1


def judge(pair: Pair, buggy: Sequence[Finding], correct: Sequence[Finding], *, is_shown: bool = False) -> Verdict:
    """Compare what was found in both scripts with the code and the line that the pair has."""
    right = [finding for finding in buggy if finding.code == pair.code]
    if any(finding.is_alarm for finding in right):
        verdict = "named"
    elif right:
        verdict = "noted"
    else:
        verdict = "flagged" if any(finding.is_alarm for finding in buggy) else "missed"
    return Verdict(
        pair.name,
        pair.area,
        pair.half,
        pair.code,
        verdict,
        verdict == "named" and any(_is_at(finding.place, pair) for finding in right if finding.is_alarm),
        is_shown,
        _described(buggy),
        _described(finding for finding in correct if finding.is_alarm),
    )


def describe(finding: Finding) -> str:
    """A finding in a few words."""
    note = " (note)" if not finding.is_alarm else ""
    return f"{finding.code} at {finding.place}{note}" if finding.place else f"{finding.code}{note}"


def as_json(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """The verdicts as plain values, one dictionary for each pair."""
    return [asdict(verdict) for verdict in verdicts]


def _described(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Each finding in a few words, what sounds the same once."""
    return tuple(dict.fromkeys(describe(finding) for finding in findings))


def _is_at(place: str, pair: Pair) -> bool:
    """Whether a place is in the buggy script, at most a few lines from the mark."""
    line = line_in(place, pair.buggy.name)
    return line is not None and abs(line - pair.line) <= TOLERANCE_LINES
