"""Checks that loops over batches go through all of them.

A `return` that is indented too far ends the loop in its first pass: an epoch is one batch, and what is returned is
divided by the number of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence

LEFT: Final = Rule(
    "loop-left-early",
    WARNING,
    "Loops that return in their first pass",
    "In the code of the training program, the last statement of a `for` loop returns what the loop adds up, by `+=`, "
    "`append` or `update`, and nothing in the loop continues with the next pass. So the loop never reaches its second "
    "pass.",
    "Indent the `return` less, so that it follows the loop.",
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/facebookresearch/deepcluster/issues/1",
        "https://github.com/saranshmanu/Federated-Learning/issues/1",
    ),
)


def _look(evidence: Evidence) -> Sight | None:
    findings = [
        LEFT.finding(
            " and ".join(source.event.names),
            f"the loop at {source.other} returns it in its first pass",
            [of_process.process.rank],
            place=source.place,
        )
        for of_process in evidence.of_processes
        for source in of_process.acts.sources
        if source.event.what == "loop-left"
    ]
    return Sight(findings) if findings else None


CHECK: Final = Check("loops", "loops go on after their first pass", _look, (LEFT,))
"""Applies if the source shows one that does not."""
