"""Optimizers had a learning rate to step with.

A rate of 0 changes nothing, and raises nothing: a scheduler that was given epochs where it counts steps, a warm-up that
never leaves its first value, a rate that was divided as an integer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import ERROR
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence

ZERO: Final = Rule(
    "learning-rate-zero",
    ERROR,
    "Learning rates of 0",
    "The learning rate of every group was 0 in more than half of an optimizer's steps, and in at least two. A warm-up "
    "that starts at 0, or a schedule that ends at 0, has fewer such steps.",
    "Print `scheduler.get_last_lr()`. Check the number of steps that was passed to the scheduler, whether it is "
    "stepped per batch or per epoch, and whether the rate was meant to be 0.",
    "show {run} --kind optimizer",
    explains=("no-effect", "never-updated"),
)


def _look(evidence: Evidence) -> Sight:
    findings = []
    is_any_told = False
    for of_process in evidence.of_processes:
        for optimizer in of_process.training.optimizers.values():
            is_any_told |= any(group.rates for group in optimizer.groups)
            if optimizer.steps_at_zero >= 2 and optimizer.steps_at_zero * 2 > optimizer.steps:
                numbers = f"in {optimizer.steps_at_zero:,} of {optimizer.steps:,} steps"
                rank = of_process.process.rank
                reason = "every learning rate was 0"
                findings.append(
                    ZERO.finding(optimizer.name, reason, [rank], place=optimizer.origin, evidence=[numbers])
                )
    if not is_any_told:
        return Sight((), evidence.unseen_training("an optimizer"), has_looked=False)
    return Sight(findings, evidence.sampling_words)


CHECK: Final = Check("rates", "optimizers had a learning rate other than 0", _look, (ZERO,))
