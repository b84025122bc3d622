"""The parts of a check, and its result."""

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
    """What a check saw of a run.

    Attributes:
        findings: what it found, including notes.
        unseen: what it could not examine, and why, in a few words each.
        has_looked: whether there was anything to examine.
        is_doubtful: whether what it could not examine forbids the conclusion that nothing looks wrong.
    """

    findings: Sequence[Finding] = ()
    unseen: Sequence[str] = ()
    has_looked: bool = True
    is_doubtful: bool = False


class Check(NamedTuple):
    """A check.

    Attributes:
        name: one word.
        meaning: what holds if it passes, as a sentence without a full stop.
        look: examines a run; returns None if the check does not apply.
        rules: its possible findings. Checks may share a rule.
        is_of_model: whether it is about the program rather than the trace.
    """

    name: str
    meaning: str
    look: Callable[[Evidence], Sight | None]
    rules: tuple[Rule, ...] = ()
    is_of_model: bool = True


class CheckResult(msgspec.Struct):
    """The result of a check for a run.

    Attributes:
        name: the check.
        state: "passed", "finding", "not checked", or "left out" if all findings are known already or ignored.
        meaning: what holds for what was examined, if it passed.
        unseen: what was not examined, and why. If the check passed or found something, all else was examined.
        is_of_model: whether the check is about the program rather than the trace.
        is_doubtful: whether what was not examined forbids the conclusion that nothing looks wrong.
        left_out: the number of findings left out.
    """

    name: str
    state: str
    meaning: str
    unseen: list[str]
    is_of_model: bool = True
    is_doubtful: bool = False
    left_out: int = 0


def result_of(check: Check, sight: Sight, told: Sequence[Finding]) -> CheckResult:
    """The result of a check, if `told` are its findings that are reported, as such or as evidence of others."""
    if any(finding.severity != NOTE for finding in told):
        state = FINDING
    elif any(finding.severity != NOTE for finding in sight.findings):
        state = LEFT_OUT
    else:
        state = PASSED if sight.has_looked else NOT_CHECKED
    unseen = list(dict.fromkeys(sight.unseen))
    left_out = len(sight.findings) - len(told)
    return CheckResult(check.name, state, check.meaning, unseen, check.is_of_model, sight.is_doubtful, left_out)
