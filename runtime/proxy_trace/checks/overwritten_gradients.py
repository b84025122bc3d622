"""Checks that gradients of several losses are added, as far as the source of the training program shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence

OVERWRITTEN: Final = Rule(
    "grad-overwritten",
    WARNING,
    "Gradients that are overwritten by those of another loss",
    "In the code of the training program, a loop over losses computes the gradients of each by `torch.autograd.grad`, "
    "for the same parameters, and assigns them to `parameter.grad`. Nothing in the loop steps, clears, or reads "
    "gradients. So the gradients of the last loss take the place of the others.",
    "Add them: `parameter.grad += grad`, or call `backward()` for each loss.",
    "show {run} --kind source_pattern",
    sources=("https://github.com/vlfeat/matconvnet/pull/258",),
)


def _look(evidence: Evidence) -> Sight | None:
    findings = [
        OVERWRITTEN.finding(
            event.names[0], f"each pass of the loop at {other} replaces it", [of_process.process.rank], place=place
        )
        for of_process in evidence.of_processes
        for event, place, other in of_process.acts.sources
        if event.what == "gradient-overwritten"
    ]
    return Sight(findings) if findings else None


CHECK: Final = Check("overwritten gradients", "gradients of several losses are added", _look, (OVERWRITTEN,))
"""Applies if the source shows that they are not."""
