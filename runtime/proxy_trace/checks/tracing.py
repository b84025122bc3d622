"""Checks that tracing had no problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ProcessEvidence

PROBLEM: Final = Rule(
    "tracing-problem",
    WARNING,
    "Problems with tracing",
    "Tracing could not record something, or stopped; the message says what and why. The program itself was not "
    "affected. The other checks say what they could not examine because of this.",
    "Fix the cause that the message names, such as a full disk. Please report a bug in the tracing.",
    "show {run} --kind problem",
)


def _look(evidence: Evidence) -> Sight:
    return Sight([finding for of_process in evidence.of_processes for finding in _problems(of_process)])


def _problems(of_process: ProcessEvidence) -> list[Finding]:
    names, process = of_process.names, of_process.process
    found = []
    for problem in of_process.problems:
        times = f" ({problem.count:,} times)" if problem.count > 1 else ""
        event = problem.event
        finding = PROBLEM.finding(
            names.module_name(event.module),
            " ".join(problem.message.split()) + times,
            [process.rank],
            step=event.step,
            time_us=event.time_us,
            place=names.place(event.location),
        )
        found.append(finding)
    if process.end == "failed" and not found:
        reason = "a bug in the tracing has ended it"
        found.append(PROBLEM.finding("", reason, [process.rank], step=process.end_step))
    return found


CHECK: Final = Check("tracing", "tracing had no problem", _look, (PROBLEM,), is_of_model=False)
