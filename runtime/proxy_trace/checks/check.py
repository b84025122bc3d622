"""What a check is, and what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy_trace.findings import NOTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.findings import Finding

PASSED: Final = "passed"
FINDING: Final = "finding"
NOT_CHECKED: Final = "not checked"


class Sight(NamedTuple):
    """What a check saw.

    Attributes:
        findings: what it found, notes among it.
        unseen: what it could not look at, and why, in a few words each.
        has_looked: whether there was anything at all that it could look at.
        is_doubtful: whether what it could not look at is reason enough not to say that nothing looks wrong.
    """

    findings: Sequence[Finding] = ()
    unseen: Sequence[str] = ()
    has_looked: bool = True
    is_doubtful: bool = False


class Check(NamedTuple):
    """Something to look for.

    Attributes:
        name: one word.
        meaning: what is so if the check has passed, as a sentence without its full stop.
        look: looks at a run; None for one that the check has nothing to do with.
        is_of_model: whether it is about what the program did, and not about the trace.
    """

    name: str
    meaning: str
    look: Callable[[Evidence], Sight | None]
    is_of_model: bool = True


class CheckResult(msgspec.Struct):
    """What a check said of a run.

    Attributes:
        name: which check.
        state: "passed", "finding" or "not checked".
        meaning: what is so of what was looked at, if it passed.
        unseen: what was not looked at, and why. Of a check that passed, or found something, all else was.
        is_of_model: whether it is about what the program did, and not about the trace.
        is_doubtful: whether what was not looked at is reason enough not to say that nothing looks wrong.
    """

    name: str
    state: str
    meaning: str
    unseen: list[str]
    is_of_model: bool = True
    is_doubtful: bool = False


def run_check(check: Check, evidence: Evidence) -> tuple[list[Finding], CheckResult | None]:
    """Look at a run.

    Returns:
        What was found, and what the check says; None where it has nothing to do with the run.
    """
    sight = check.look(evidence)
    if sight is None:
        return [], None
    if any(finding.kind not in NOTES for finding in sight.findings):
        state = FINDING
    else:
        state = PASSED if sight.has_looked else NOT_CHECKED
    unseen = list(dict.fromkeys(sight.unseen))
    result = CheckResult(check.name, state, check.meaning, unseen, check.is_of_model, sight.is_doubtful)
    return list(sight.findings), result
