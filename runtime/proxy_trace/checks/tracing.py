"""Tracing met no problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.findings import Finding

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.process_summary import ProcessCollector


def _look(evidence: Evidence) -> Sight:
    return Sight([finding for collector in evidence.collectors for finding in _problems(collector)])


def _problems(collector: ProcessCollector) -> list[Finding]:
    names, process = collector.names, collector.process
    found = []
    for problem in collector.problems.values():
        times = f" ({problem.count:,} times)" if problem.count > 1 else ""
        event = problem.event
        finding = Finding(
            "problem",
            names.module_name(event.module),
            " ".join(problem.message.split()) + times,
            [process.rank],
            step=event.step,
            time_us=event.time_us,
            place=names.place(event.location),
        )
        found.append(finding)
    if process.end == "failed" and not found:
        reason = "a mistake of the tracing itself has ended it"
        found.append(Finding("problem", "", reason, [process.rank], step=process.end_step))
    return found


CHECK: Final = Check("tracing", "tracing met no problem", _look, is_of_model=False)
