"""Checks that no process ended with an exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.evidence import of
from proxy_trace.checks.finding import ERROR
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding

ENDED: Final = Rule(
    "ended-by-exception",
    ERROR,
    "Exceptions that ended processes",
    "A process ended with an uncaught exception; the name is its class. What the trace says about the training up to "
    "that point is valid.",
    "Read the traceback that the program printed.",
    "show {run} --kind run_end,problem",
)


def _look(evidence: Evidence) -> Sight:
    """Processes without an end record are left to the check of files."""
    by_error: dict[tuple[str, int], Finding] = {}
    for process in evidence.processes:
        _, _, error = process.end.partition(" ")
        if error:
            finding = ENDED.finding(error, "ended the process", [], step=process.end_step)
            finding = by_error.setdefault((error, process.end_step), finding)
            finding.ranks = sorted({*finding.ranks, process.rank})
    processes = len(evidence.processes)
    unproxied = sum(process.end == "unproxied" for process in evidence.processes)
    endless = sum(not process.end for process in evidence.processes)
    unseen = []
    if unproxied:
        unseen.append(f"{of(unproxied, processes, 'process', 'processes')} no longer traced at the end")
    if endless:
        unseen.append(f"{of(endless, processes, 'process', 'processes')} without an end")
    return Sight(list(by_error.values()), unseen, has_looked=unproxied + endless < processes)


CHECK: Final = Check("end", "no process ended with an exception", _look, (ENDED,), is_of_model=False)
