"""Checks that penalties on gradients have gradients themselves.

`torch.autograd.grad` without `create_graph=True` returns gradients without a graph. A penalty that is computed from
them, as in WGAN-GP, is a constant in the loss and regularises nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence

CONSTANT_PENALTY: Final = Rule(
    "penalty-without-graph",
    WARNING,
    "Penalties on gradients that have no gradient",
    "A function whose name says that it computes a penalty (`gradient_penalty`, `gp`, `r1`) called "
    "`torch.autograd.grad` at least twice at one place, each time without `create_graph=True`, in a run that trains. "
    "The result does not depend on the weights.",
    "Pass `create_graph=True` to `torch.autograd.grad`.",
    "show {run} --kind backward",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html",),
)


def _look(evidence: Evidence) -> Sight | None:
    findings = []
    is_any = False
    for of_process in evidence.of_processes:
        for penalty in of_process.training.penalties.values():
            is_any = True
            if of_process.has_trained and penalty.plain >= 2 and not penalty.differentiable:
                numbers = [f"in {penalty.plain:,} calls"]
                reason = "it computes gradients without a graph"
                rank = [of_process.process.rank]
                findings.append(
                    CONSTANT_PENALTY.finding(penalty.function, reason, rank, place=penalty.place, evidence=numbers)
                )
    return Sight(findings, evidence.sampling_words) if is_any else None


CHECK: Final = Check("penalties", "penalties on gradients have gradients", _look, (CONSTANT_PENALTY,))
"""Applies if a function named like a penalty computes gradients."""
