"""Every check, in the order in which they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks import (
    calls,
    end,
    files,
    gradients,
    losses,
    outputs,
    parameters,
    ranks,
    tracing,
    training,
    updates,
)
from proxy_trace.checks.check import run_check
from proxy_trace.findings import in_order

if TYPE_CHECKING:
    from proxy_trace.checks.check import Check, CheckResult
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.findings import Finding

CHECKS: Final[tuple[Check, ...]] = tuple(
    module.CHECK
    for module in (
        end,
        outputs,
        losses,
        gradients,
        parameters,
        training,
        updates,
        calls,
        ranks,
        tracing,
        files,
    )
)


def run_checks(evidence: Evidence) -> tuple[list[Finding], list[CheckResult]]:
    """What all checks find in a run, and what each of them says; those that have nothing to do with it are left out."""
    found: list[Finding] = []
    results = []
    for check in CHECKS:
        findings, result = run_check(check, evidence)
        found += findings
        if result is not None:
            results.append(result)
    return in_order(found), results
