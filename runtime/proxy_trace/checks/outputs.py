"""Checks that no module returned a NaN or an infinity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.evidence import is_recorded, of
from proxy_trace.checks.non_finite_values import NON_FINITE, find_non_finite

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence


def _look(evidence: Evidence) -> Sight:
    """Outputs are checked on any level, and also in iterations that are not recorded."""
    findings = find_non_finite(evidence, "output")
    is_any_called = any(process.module_calls for process in evidence.processes)
    unseen = list(evidence.compiled_words)
    around = sum(not module.calls_seen and not module.calls for module in evidence.modules)
    if around:
        unseen.append(f"calls of {of(around, len(evidence.modules), 'module')} bypass PyTorch's hooks")
    if is_any_called or any(not is_recorded(module) for module in evidence.modules):
        return Sight(findings, unseen)
    return Sight(findings, unseen or ["no call of a module was traced"], has_looked=False)


CHECK: Final = Check("outputs", "no module returned a NaN or an infinity", _look, (NON_FINITE,))
