"""Checks that the arguments of losses, of distributions and of the program's own functions stand where they belong.

Two values of one type can be exchanged without an error. Their names in the call tell what they are, or which of them
has a gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding

SWAPPED: Final = Rule(
    "arguments-swapped",
    WARNING,
    "Arguments in each other's place",
    "A triplet loss of PyTorch is called with an argument that is named like its `negative` in the place of its "
    "`positive`, and the reverse: `triplet(anchor, negative, positive)`. It pulls different samples together and "
    "pushes equal ones apart. Or a cross entropy, binary or of classes, has a gradient for its targets and none for "
    "its scores: the prediction was passed as the target. A prediction that goes into another loss, too, is not "
    "reported. Or the program calls a function of the same file, or creates an object, with two arguments that are "
    "each named as the parameter of the other, such as an epoch and a mode. Names of one kind, such as two sizes, are "
    "often exchanged on purpose, and are not reported.",
    "Pass the arguments in the order of the parameters, or by keyword: `positive=...`, `negative=...`, `target=...`.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/autonomousvision/sledge/issues/4",
        "https://github.com/WenjieDu/PyGrinder/issues/42",
        "Rice et al., Detecting Argument Selection Defects, OOPSLA 2017",
    ),
    explains=("wrong-loss-sign",),
)
DEVIATION: Final = Rule(
    "variance-or-deviation",
    WARNING,
    "Standard deviations in place of variances, or the reverse",
    "`F.gaussian_nll_loss` takes a variance, but received a variable named like a standard deviation, such as `std` or "
    "`sigma`. Or `torch.distributions.Normal` or `torch.normal`, which take a standard deviation, received a variable "
    "named like a variance. A variable that the same function computes by a square or a root is not reported.",
    "Pass `std ** 2` to `F.gaussian_nll_loss`, and `var.sqrt()` to a normal distribution.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/unit8co/darts/pull/1162",
        "https://github.com/MaximeRobeyns/bayesian_flow_networks/issues/1",
    ),
)

_RULES: Final = {
    "negative-before-positive": (
        SWAPPED,
        "loss",
        "its positive is named like a negative, and its negative like a positive",
    ),
    "targets-as-scores": (SWAPPED, "loss", "its targets have a gradient, and its scores have none"),
    "deviation-as-variance": (DEVIATION, "loss", "its variance is named like a standard deviation"),
    "variance-as-deviation": (DEVIATION, "distribution", "its standard deviation is named like a variance"),
}
"""For each pattern, its rule, and the name and reason of its findings."""


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    for of_process in evidence.of_processes:
        reported: set[tuple[str, str]] = set()
        for event, backward_place, made in of_process.acts.patterns:
            place = made or of_process.training.computed_at(backward_place)
            if event.what in _RULES and (event.what, place) not in reported:
                reported.add((event.what, place))
                rule, name, reason = _RULES[event.what]
                findings.append(rule.finding(name, reason, [of_process.process.rank], step=event.step, place=place))
        for source in of_process.acts.sources:
            if source.event.what == "arguments-exchanged":
                function, one, two = source.event.names
                reason = f"`{one}` and `{two}` stand in each other's place; it is defined at {source.other}"
                findings.append(SWAPPED.finding(function, reason, [of_process.process.rank], place=source.place))
    return Sight(findings, evidence.compiled_words) if findings else None


CHECK: Final = Check("arguments", "arguments stand where they belong", _look, (SWAPPED, DEVIATION))
"""Present only if it finds something, because few programs call such functions."""
