"""Checks that no backward pass began with a NaN or an infinity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.non_finite_values import NON_FINITE, find_non_finite

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence


def _look(evidence: Evidence) -> Sight:
    findings = find_non_finite(evidence, "loss")
    if not any(process.backward_passes for process in evidence.processes):
        return Sight(findings, evidence.level_words or ["no backward pass was traced"], has_looked=False)
    if not any(of_process.has_bits for of_process in evidence.of_processes):
        return Sight(findings, ["older traces do not record this"], has_looked=False)
    return Sight(findings, evidence.sampling_words)


CHECK: Final = Check("losses", "no backward pass started from a NaN or an infinity", _look, (NON_FINITE,))
