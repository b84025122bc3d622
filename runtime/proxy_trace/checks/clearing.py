"""Checks that gradients were cleared between the steps of an optimizer.

Without `optimizer.zero_grad()`, each backward pass adds to the gradients that the last step used, and steps follow the
sum of all gradients so far: the loss falls for a while, slowly or unevenly, without an error.

For each step, the trace says whether one of its gradients was neither missing nor zero whenever a backward pass for it
began. This recognises all ways of clearing: after a step, before the next backward pass, or once per several
accumulated passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import ERROR, WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ProcessEvidence

NOT_CLEARED: Final = Rule(
    "grad-not-cleared",
    ERROR,
    "Gradients not cleared between steps",
    "In at least two steps of an optimizer, and in more than half of those for which this is known, the gradients of "
    "the previous step had not been cleared when the backward passes began, so the new gradients were added to them. "
    "A single time may be on purpose. Or a loop that updates the parameters without an optimizer left the gradients as "
    "they were after its first four updates.",
    "Call `optimizer.zero_grad()` once per step, before the backward pass or after the step; without an optimizer, "
    "`model.zero_grad()`.",
    "show {run} --kind optimizer_step,gradient",
    sources=(
        "Humbatova et al., Taxonomy of Real Faults in Deep Learning Systems, ICSE 2020",
        "https://docs.pytorch.org/tutorials/recipes/recipes/zeroing_out_gradients.html",
    ),
    explains=("learning-rate-too-high", "exploding-gradients"),
)


OF_OPPONENT: Final = Rule(
    "grad-of-opponent",
    WARNING,
    "Gradients that the loss of an opponent has left",
    "In at least four steps, the gradients were those of two backward passes at different places, and another "
    "optimizer stepped between the two: nobody cleared what the first pass had left. The two losses are opposed. The "
    "first one sends gradients through a discriminator to its generator, and the second one trains the discriminator "
    "with the same samples without a gradient, or the two compare its scores with different labels (binary cross "
    "entropy). Or the first loss is the mean of a critic's values of an actor's actions. So a discriminator also "
    "learns to be deceived, a generator to be recognised, or a critic to give high values.",
    "Call `zero_grad()` of this optimizer right before its own backward pass.",
    "show {run} --kind state_pattern,optimizer_step",
    sources=(
        "https://github.com/Lightning-AI/pytorch-lightning/issues/557",
        "https://github.com/leffff/FlowModels/issues/3",
    ),
)


def _look(evidence: Evidence) -> Sight:
    findings = []
    judged = 0
    for of_process in evidence.of_processes:
        for optimizer in of_process.training.optimizers.values():
            followed = optimizer.steps - 1  # Nothing comes before the first.
            judged += max(0, followed)
            if optimizer.carried >= 2 and optimizer.carried * 2 > followed:
                reason = "the gradients of the previous step were still there, and were added to"
                numbers = f"in {optimizer.carried:,} of {followed:,} steps"
                rank, first = of_process.process.rank, optimizer.first_carried
                place = optimizer.place
                findings.append(
                    NOT_CLEARED.finding(optimizer.name, reason, [rank], step=first, place=place, evidence=[numbers])
                )
        findings += _of_opponents(of_process)
        for state in of_process.acts.states:
            if state.event.what == "gradient-carried":
                reason = "updates without an optimizer left its gradient, and the next one was added to it"
                rank, step = of_process.process.rank, state.event.step
                findings.append(NOT_CLEARED.finding(state.tensor, reason, [rank], step=step, place=state.place))
    if not judged and not findings:
        has_any = any(each.training.optimizers for each in evidence.of_processes)
        unseen = ["no optimizer made a second step"] if has_any else evidence.unseen_training("an optimizer")
        return Sight((), unseen, has_looked=False)
    return Sight(findings, evidence.sampling_words)


def _of_opponents(of_process: ProcessEvidence) -> list[Finding]:
    """Findings about steps with gradients that the loss of an opponent has left."""
    found = []
    for state in of_process.acts.states:
        if state.event.what == "gradient-left":
            name = state.tensor.partition(".")[0]
            reason = f"its gradients still had those of the backward pass at {state.made}, and were added to"
            numbers = [f"in at least {state.event.values[0]:g} steps"] if state.event.values else []
            rank, step = [of_process.process.rank], state.event.step
            found.append(OF_OPPONENT.finding(name, reason, rank, step=step, place=state.place, evidence=numbers))
    return found


CHECK: Final = Check("clearing", "gradients were cleared between steps", _look, (NOT_CLEARED, OF_OPPONENT))
