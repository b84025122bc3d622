"""Checks that no gradient had a NaN, an infinity, or an infinite norm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.non_finite_values import NON_FINITE, find_non_finite, find_overflows
from proxy_wrapper import events

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence


def _look(evidence: Evidence) -> Sight:
    """Level WARNING records the first non-finite elements, but no norms, nor what was examined."""
    findings = [*find_non_finite(evidence, "gradient"), *find_overflows(evidence, events.Gradient)]
    if any(tensor.gradients for process in evidence.processes for tensor in process.tensors):
        return Sight(findings, [*evidence.level_words, *evidence.sampling_words, *evidence.watching_words])
    return Sight(findings, evidence.level_words or ["no gradient was recorded"], has_looked=False)


CHECK: Final = Check(
    "gradients", "no gradient contained a NaN or an infinity or had an infinite norm", _look, (NON_FINITE,)
)
