"""Checks that the run has everything that a good run of the same script had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import NOTE
from proxy_trace.checks.rule import Rule
from proxy_trace.comparison.against import facts

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.comparison.against.compare_with_good_run import OfRank

_DIFFERS: Final = Rule(
    "differs-from-good-run",
    NOTE,
    "Differences from the good run",
    "The run was compared with a good one (`--against`), and something differs: a call, a setting, a shape, a mode, a "
    "number of steps. Values are not compared. Records are aligned by what is called, in which module and stage, so "
    "lines may have moved. The most significant differences come first: something missing, or created with other "
    "settings, before its possible consequences. Whether a difference is on purpose is unknown.",
    "Look at the first ones. What was changed on purpose since the good run is not a mistake.",
)

_WORDS: Final = {
    facts.CALL: "its calls",
    facts.MODULE: "the module",
    facts.PARAMETER: "the parameter",
    facts.BUFFER: "the buffer",
    facts.LOAD: "loading weights",
    facts.INPUT: "its values",
    facts.CONFIGURATION: "setting of torch",
}
"""What a difference is about, in addition to its name."""

_NAMED: Final = {
    facts.OPTIMIZER: "optimizer {}",
    facts.STEP: "steps of the optimizer {}",
    facts.CHANGED_SETTING: "changes of {}",
    facts.BACKWARD: "backward passes",
    facts.SCHEDULER: "{}",
    facts.CLIP: "clipping of gradients",
    facts.NON_FINITE: "non-finite {}",
    facts.RUN: "the run",
}
"""Names that need a phrase around them."""


def _look(evidence: Evidence) -> Sight | None:
    against = evidence.against
    if against is None:
        return None
    return Sight([_finding(each) for each in against.deviations], against.limits)


def _finding(of_rank: OfRank) -> Finding:
    deviation, rank = of_rank
    name = _NAMED.get(deviation.kind, "{}").format(deviation.name)
    what = ", ".join(part for part in (_WORDS.get(deviation.kind, ""), deviation.aspect) if part)
    at = f" at {deviation.place_there}" if deviation.place_there and not deviation.place else ""
    reason = f"{f'{what}: ' if what else ''}{deviation.here}; in the good run {deviation.there}{at}"
    further = [f"likewise or in consequence: {deviation.further:,} more"] if deviation.further else []
    return _DIFFERS.finding(
        name, reason, [rank], deviation.names, step=deviation.step, place=deviation.place, evidence=further
    )


CHECK: Final = Check("good run", "nothing is missing that the good run had", _look, (_DIFFERS,))
