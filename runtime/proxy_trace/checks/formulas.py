"""The parts of a loss do not contradict each other.

| what the graph of a loss has | code |
| --- | --- |
| rows that are compared after they were divided by the norm of the whole batch | normalised-by-batch |
| noise that is scaled by what the divergence takes for the variance | scale-is-variance |
| log-probabilities times the error of a critic, with the gradient of that error | advantage-not-detached |

That is decided by the structure of the graph alone, in the first backward passes at a place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding

NORM: Final = Rule(
    "normalised-by-batch",
    WARNING,
    "Embeddings that are divided by the norm of the whole batch",
    "A loss compares the rows of matrices, by their distances or by their products, after each matrix was divided by "
    "one norm of all its elements: `norm()` without `dim`. The rows do not have length 1, but about one divided by the "
    "square root of their number, and each row depends on all others.",
    "Give the norm a dimension, `z / z.norm(dim=1, keepdim=True)`, or use `F.normalize(z, dim=1)`.",
    "show {run} --kind graph_pattern",
    sources=("https://github.com/HarryVolek/PyTorch_Speaker_Verification/issues/16",),
)
SCALE: Final = Rule(
    "scale-is-variance",
    WARNING,
    "Noise that is scaled by a variance",
    "A sample is a mean plus noise times an exponential, as in a variational autoencoder. The divergence from a "
    "standard normal distribution, `1 + logvar - mean ** 2 - exp(logvar)`, takes that same exponential for the "
    "variance of the sample; its standard deviation is the square root of that.",
    "Scale the noise by `torch.exp(0.5 * logvar)`, and use `logvar.exp()` in the divergence.",
    "show {run} --kind graph_pattern",
    sources=("https://github.com/rachtsingh/ibp_vae/issues/3", "https://github.com/keras-team/keras/issues/3283"),
)
ADVANTAGE: Final = Rule(
    "advantage-not-detached",
    WARNING,
    "Policy losses that train the critic",
    "A loss has log-probabilities times the error of a critic, such as `returns - values`, with the gradient of that "
    "error; and the critic has a loss of that error, too. So the policy loss changes the critic: it makes the values "
    "of likely actions higher or lower, whatever the returns are.",
    "Detach the error where it is a weight: `(returns - values).detach()`.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/astariul/encode-attend-navigate-pytorch/issues/2",
        "https://github.com/keras-team/keras-io/issues/194",
    ),
)

_RULES: Final = {
    "norm-of-batch": (NORM, "embedding", "rows of shape {shape} are divided by the norm of them all"),
    "scale-is-variance": (SCALE, "noise", "what scales it, of shape {shape}, is the variance in the divergence"),
    "error-not-detached": (ADVANTAGE, "loss", "the weights of log-probabilities, of shape {shape}, have a gradient"),
}
"""The rule of each pattern, what it is about, and what is said."""


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    for of_process in evidence.of_processes:
        told: set[tuple[str, str]] = set()
        for event, backward_place, made in of_process.acts.patterns:
            if event.what not in _RULES:
                continue
            rule, name, reason = _RULES[event.what]
            place = made or of_process.training.computed_at(backward_place)
            if (rule.code, place) in told:
                continue
            told.add((rule.code, place))
            words = reason.format(shape=tuple(event.shape))
            findings.append(rule.finding(name, words, [of_process.process.rank], step=event.step, place=place))
    return Sight(findings, [*evidence.device_words, *evidence.compiled_words]) if findings else None


CHECK: Final = Check("formulas", "the parts of each loss agree with each other", _look, (NORM, SCALE, ADVANTAGE))
"""Applies if a formula contradicts itself: few programs have one that could."""
