"""Checks that gradients pass through random draws where they should.

| the program draws | code |
| --- | --- |
| weights or codes by `torch.normal`, through which no gradient passes | draw-without-gradient |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding

WITHOUT_GRADIENT: Final = Rule(
    "draw-without-gradient",
    WARNING,
    "Random draws without a gradient",
    "`torch.normal(mean, std)` drew a tensor that a product then used, such as that of a linear layer. The gradient of "
    "`torch.normal` is zero, so the loss of the draw trains neither the mean nor the standard deviation. Only another "
    "term that uses them does, such as a divergence from a prior. There is no finding if the mean is used in a "
    "difference, as in the density of an action, or has a loss of its own.",
    "Use `mean + std * torch.randn_like(std)`, or `rsample()` of `torch.distributions.Normal`.",
    "show {run} --kind graph_pattern",
    sources=("https://github.com/pytorch/pytorch/issues/4620",),
)


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    for of_process in evidence.of_processes:
        reported: set[str] = set()
        for event, backward_place, made in of_process.acts.patterns:
            place = made or of_process.training.computed_at(backward_place)
            if event.what == "normal-draw" and place not in reported:
                reported.add(place)
                reason = f"no gradient passes through `torch.normal`, which drew a tensor of shape {tuple(event.shape)}"
                rank = [of_process.process.rank]
                findings.append(WITHOUT_GRADIENT.finding("draw", reason, rank, step=event.step, place=place))
    return Sight(findings) if findings else None


CHECK: Final = Check("draws", "gradients pass through random draws where they should", _look, (WITHOUT_GRADIENT,))
"""Present only if it finds something."""
