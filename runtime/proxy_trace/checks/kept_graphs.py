"""Checks that graphs of losses do not stay in memory.

`total += loss` keeps each loss with the graph that computed it, although its backward pass has used the graph up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding

KEPT: Final = Rule(
    "graph-kept",
    WARNING,
    "Graphs of losses that stay in memory",
    "The graphs of 24 backward passes in a row were in memory at once, and the optimizer stepped between them. Each "
    "pass had freed the values in its graph, so the graph is of no use, but the program has a tensor with it, such as "
    "the sum of all losses. Memory grows with each step. Graphs that a pass was told to retain do not count.",
    "Keep numbers: `total += loss.item()`, or `loss.detach()` to avoid waiting for a GPU.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://docs.pytorch.org/docs/stable/notes/faq.html",
        "https://github.com/google/brax/pull/152",
        "https://github.com/BatsResearch/labelmodels/issues/4",
    ),
)


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    for of_process in evidence.of_processes:
        reported: set[str] = set()
        for event, backward_place, made in of_process.acts.patterns:
            place = made or backward_place
            if event.what == "graph-kept" and place not in reported:
                reported.add(place)
                numbers = [f"those of {event.values[0]:,.0f} passes in a row"]
                reason = "its graph stays in memory after the backward pass"
                rank = [of_process.process.rank]
                findings.append(KEPT.finding("loss", reason, rank, step=event.step, place=place, evidence=numbers))
    return Sight(findings) if findings else None


CHECK: Final = Check("kept graphs", "graphs of losses do not stay in memory", _look, (KEPT,))
"""Present only if it finds something."""
