"""Checks that gradients pass through random draws where they should, and that a noise to be predicted was added.

| the program draws | code |
| --- | --- |
| weights or codes by `torch.normal`, through which no gradient passes | draw-without-gradient |
| actions by `sample()`, for a critic whose values an actor should raise | draw-without-gradient |
| the noise that a diffusion model should predict anew, after another one was added to the input | noise-not-added |
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

WITHOUT_GRADIENT: Final = Rule(
    "draw-without-gradient",
    WARNING,
    "Random draws without a gradient",
    "`torch.normal(mean, std)` drew a tensor that a product then used, such as that of a linear layer. The gradient of "
    "`torch.normal` is zero, so the loss of the draw trains neither the mean nor the standard deviation. Only another "
    "term that uses them does, such as a divergence from a prior. There is no finding if the mean is used in a "
    "difference, as in the density of an action, or has a loss of its own. Or code behind a loss calls `sample()`, at "
    "one line, and the gradient of a term of the loss reaches only parameters that the steps after it do not update: "
    "another optimizer has them, which always steps after other backward passes. So a critic's values of the drawn "
    "actions do not train the actor.",
    "Use `mean + std * torch.randn_like(std)`, or `rsample()` of `torch.distributions.Normal`.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/pytorch/pytorch/issues/4620",
        "https://github.com/jankrepl/deepdow/pull/106",
    ),
)

NOT_ADDED: Final = Rule(
    "noise-not-added",
    WARNING,
    "Noise that is to be predicted, but was not added",
    "In the code of the training program, a loss compares what a model puts out with a normally distributed noise that "
    "nothing else reads, and that is drawn in each pass. The input of the model is computed from the same data with "
    "another noise, which the expression, or a function of the file, draws itself. So nothing about the target can be "
    "known from the input, and the model learns to predict 0.",
    "Draw one noise, and pass it to the function that adds it: `noisy = add_noise(x, t, noise)`; or let that return "
    "its noise.",
    "show {run} --kind source_pattern",
    sources=("https://arxiv.org/abs/2006.11239",),
)

_FEWEST_STEPS: Final = 16


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
        findings += _of_terms(of_process)
        findings += [
            NOT_ADDED.finding(
                source.names[0],
                f"the model is to predict it, but its input, computed at {other}, has another noise",
                [of_process.process.rank],
                place=place,
            )
            for source, place, other in of_process.acts.sources
            if source.what == "noise-unadded"
        ]
    return Sight(findings) if findings else None


def _of_terms(of_process: ProcessEvidence) -> list[Finding]:
    """The draws of one process that cut a term of a loss off what the loss should train."""
    found: dict[str, Finding] = {}
    names = {tensor.id: tensor.name for tensor in of_process.process.tensors}
    optimizers = [each for each in of_process.training.optimizers.values() if each.steps >= _FEWEST_STEPS]
    patterns = [each for each in of_process.acts.patterns if each.event.what == "separate-term"]
    for event, _, made in patterns:
        own = set(event.weights)
        fed = [each for each in optimizers if event.location in each.fed_at]
        trained = {number for each in fed for number in each.tensors}
        apart = [each for each in optimizers if each.fed_at and not each.unfed and each not in fed]
        elsewhere = {number for each in apart for number in each.tensors}
        beside = {number for other, _, _ in patterns if other.location == event.location for number in other.weights}
        if trained & beside and not own & trained and own <= elsewhere:
            name = names.get(min(own), "").partition(".")[0]
            reason = f"a term of the loss trains only {name}, which the steps after it do not update"
            numbers = [f"at {each.place}, {each.steps:,} steps" for each in fed[:1]]
            rank = [of_process.process.rank]
            finding = WITHOUT_GRADIENT.finding("draw", reason, rank, step=event.step, place=made, evidence=numbers)
            found.setdefault(made, finding)
    return list(found.values())


_RULES: Final = (WITHOUT_GRADIENT, NOT_ADDED)

CHECK: Final = Check("draws", "gradients pass through random draws where they should", _look, _RULES)
"""Present only if it finds something."""
