"""Checks that the weights that are kept are the best ones, not the worst.

`if val_loss > best_loss` keeps the weights with the highest loss. Nothing fails: the model that is loaded in the end
is just a bad one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence

WORST_KEPT: Final = Rule(
    "worst-weights-kept",
    WARNING,
    "Weights that are kept when they are worse",
    "In the code of the training program, weights are stored if a loss or an error is greater than the best one so "
    "far, or an accuracy is less. The new value then becomes the best one. Or `is_best` comes with the greatest loss, "
    "`best_loss = max(loss, best_loss)`, or the least accuracy. What is a loss, and which is the best, is told by the "
    "names of the variables; a variable called a maximum may have the greatest loss.",
    "Turn the comparison around, and start with `float('inf')` for a loss, with 0 for an accuracy.",
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/chickenbestlover/RNN-Time-series-Anomaly-Detection/issues/35",
        "https://github.com/qjadud1994/TricubeNet/issues/4",
    ),
)


def _look(evidence: Evidence) -> Sight | None:
    findings = [
        WORST_KEPT.finding(
            source.event.names[1],
            f"it becomes {source.event.names[0]} when that is worse",
            [of_process.process.rank],
            place=source.place,
        )
        for of_process in evidence.of_processes
        for source in of_process.acts.sources
        if source.event.what == "worst-kept"
    ]
    return Sight(findings) if findings else None


CHECK: Final = Check("selection", "weights are kept when they are better", _look, (WORST_KEPT,))
"""Applies if the source shows some that are kept when they are worse."""
