"""What a check is, and what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy_trace.checks.finding import NOTE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.checks.rule import Rule

PASSED: Final = "passed"
FINDING: Final = "finding"
NOT_CHECKED: Final = "not checked"
LEFT_OUT: Final = "left out"


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
        rules: what it may find. Several checks may share one.
        is_of_model: whether it is about what the program did, and not about the trace.
    """

    name: str
    meaning: str
    look: Callable[[Evidence], Sight | None]
    rules: tuple[Rule, ...] = ()
    is_of_model: bool = True


class CheckResult(msgspec.Struct):
    """What a check said of a run.

    Attributes:
        name: which check.
        state: "passed", "finding", "not checked", or "left out" if all that it found is known already, or ignored.
        meaning: what is so of what was looked at, if it passed.
        unseen: what was not looked at, and why. Of a check that passed, or found something, all else was.
        is_of_model: whether it is about what the program did, and not about the trace.
        is_doubtful: whether what was not looked at is reason enough not to say that nothing looks wrong.
        left_out: how many findings were left out.
    """

    name: str
    state: str
    meaning: str
    unseen: list[str]
    is_of_model: bool = True
    is_doubtful: bool = False
    left_out: int = 0


def result_of(check: Check, sight: Sight, told: Sequence[Finding]) -> CheckResult:
    """What a check says, if some of its findings are told: by themselves, or as evidence of others."""
    if any(finding.severity != NOTE for finding in told):
        state = FINDING
    elif any(finding.severity != NOTE for finding in sight.findings):
        state = LEFT_OUT
    else:
        state = PASSED if sight.has_looked else NOT_CHECKED
    unseen = list(dict.fromkeys(sight.unseen))
    left_out = len(sight.findings) - len(told)
    return CheckResult(check.name, state, check.meaning, unseen, check.is_of_model, sight.is_doubtful, left_out)
