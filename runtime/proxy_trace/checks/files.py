"""Checks that the trace is complete: no file is truncated or has unreadable lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ProcessSummary

INCOMPLETE: Final = Rule(
    "incomplete-trace",
    WARNING,
    "Incomplete trace files",
    "A trace file has no end, is truncated within a line, or has unreadable lines: the process was killed, is still "
    "running, or the file was changed. Everything readable was used.",
    "If the program has ended, check whether it was killed (out of memory, a time limit) and whether the disk is full.",
    "show {run} --kind run_end,problem",
)


def _look(evidence: Evidence) -> Sight:
    found = [finding for process in evidence.processes for finding in _incomplete(process)]
    return Sight([*found, *(INCOMPLETE.finding(str(path), reason, []) for path, reason in evidence.damaged)])


def _incomplete(process: ProcessSummary) -> list[Finding]:
    reasons = []
    if process.is_cut:
        reasons.append("cut off within its last line: the process was killed, or is still running")
    if process.ends_inside:
        reasons.append(
            f"ends inside {process.ends_inside}: the process was killed or interrupted there, or is still running"
        )
    elif not process.end and not process.is_cut:
        reasons.append("has no end: the process was killed, or is still running")
    if process.malformed:
        lines = "1 malformed line" if process.malformed == 1 else f"{process.malformed:,} malformed lines"
        reasons.append(f"{lines} left out, the first is line {process.first_malformed_line:,}")
    if process.unknown:
        kinds = ", ".join(f"{kind} ({count:,})" for kind, count in sorted(process.unknown.items()))
        reasons.append(f"records of unknown kinds left out, perhaps from a newer version: {kinds}")
    if process.surplus:
        reasons.append(f"{process.surplus:,} definitions and non-finite values left out: they exceed the limits")
    return [INCOMPLETE.finding(process.file, reason, [process.rank]) for reason in reasons]


CHECK: Final = Check("files", "no trace file is truncated", _look, (INCOMPLETE,), is_of_model=False)
