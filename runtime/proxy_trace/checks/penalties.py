"""Checks that penalties on gradients have gradients themselves, and that gradients with a graph are used.

`torch.autograd.grad` without `create_graph=True` returns gradients without a graph. A penalty computed from them, as
in WGAN-GP, is a constant in the loss and regularises nothing; so is a derivative in the residual of a differential
equation. Conversely, gradients with `create_graph=True`, as in the
inner loop of MAML, update parameters on which a later loss should depend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ProcessEvidence

CONSTANT_PENALTY: Final = Rule(
    "penalty-without-graph",
    WARNING,
    "Penalties on gradients that have no gradient",
    "A function whose name says that it computes a penalty (`gradient_penalty`, `gp`, `r1`) or the residual of a "
    "differential equation (`residual`, `physics_loss`, `pde`), but not that it evaluates or shows it, called "
    "`torch.autograd.grad` at least twice at one place, each time without `create_graph=True`, in a run that trains. "
    "The result does not depend on the weights.",
    "Pass `create_graph=True` to `torch.autograd.grad`.",
    "show {run} --kind backward",
    sources=(
        "https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html",
        "https://github.com/pytorch/pytorch/issues/31984",
    ),
)
UNUSED: Final = Rule(
    "inner-steps-unused",
    WARNING,
    "Inner steps of meta-learning that no loss depends on",
    "`torch.autograd.grad` with `create_graph=True` repeatedly computed gradients of parameters at one place. Later "
    "gradients were computed from earlier ones, or the name of the function says that it adapts parameters (`adapt`, "
    "`inner_update`). But no later backward pass used these gradients: four were examined for each. So the training "
    "loss does not depend on the adapted parameters. It was computed with the initial ones, or the steps were made on "
    "`.data`.",
    "Compute the outer loss with the adapted parameters, `functional_call(model, adapted, (x,))`.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/KanishJebaMathewM/Truxify/issues/13118",
        "https://github.com/katerakelly/pytorch-maml/issues/15",
    ),
)


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
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
        unused = _unused(of_process)
        findings += unused
        is_any |= bool(unused)
    return Sight(findings, evidence.sampling_words) if is_any else None


def _unused(of_process: ProcessEvidence) -> list[Finding]:
    """The places of one process whose gradients have a graph that no loss uses."""
    found = []
    used = {place for event, place, _ in of_process.acts.patterns if event.what == "derivatives-used"}
    for event, place, made in of_process.acts.patterns:
        if event.what == "derivatives-unused" and place not in used and of_process.has_trained:
            reason = "it computes gradients with a graph, but no training loss depends on them"
            rank = [of_process.process.rank]
            found.append(UNUSED.finding("autograd.grad", reason, rank, step=event.step, place=made or place))
    return found


CHECK: Final = Check("penalties", "penalties on gradients have gradients", _look, (CONSTANT_PENALTY, UNUSED))
"""Applies if a function named like a penalty computes gradients, or if gradients with a graph are unused."""
