"""Checks that no parameter or buffer came to contain a NaN or an infinity, or to have an infinite norm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.evidence import of
from proxy_trace.checks.non_finite_values import NON_FINITE, find_at_start, find_non_finite, find_overflows
from proxy_wrapper import events

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence


def _look(evidence: Evidence) -> Sight:
    """A buffer that was created with infinities, like a mask, is as intended."""
    findings = [*find_non_finite(evidence, "parameter", "buffer"), *find_overflows(evidence, events.Update)]
    findings += find_at_start(evidence, findings)
    tensors = [tensor for process in evidence.processes for tensor in process.tensors if not tensor.removed]
    unread = sum(tensor.last is None for tensor in tensors)
    unseen = [*evidence.level_words, *evidence.sampling_words, *evidence.watching_words]
    if unread:
        unseen.append(f"the values of {of(unread, len(tensors), 'tensor')} could not be read")
    if unread < len(tensors) and not evidence.is_quiet:
        return Sight(findings, unseen)
    return Sight(findings, unseen or ["no parameter was traced"], has_looked=False)


CHECK: Final = Check("parameters", "no parameter or buffer came to contain a NaN or an infinity", _look, (NON_FINITE,))
