"""Checks that the weights of classes in losses go against how often the classes occur.

Weights are meant to make up for rare classes. Turned upside down, they make rare classes count even less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ProcessEvidence

INVERSE: Final = Rule(
    "class-weights-inverse",
    WARNING,
    "Class weights that favour frequent classes",
    "The weights of a loss are proportional to how often the classes occur in its targets, within what chance allows. "
    "`pos_weight` of `nn.BCEWithLogitsLoss` is below 0.5, and is the number of positives divided by the number of "
    "negatives, instead of the reverse. Or the weights of `nn.CrossEntropyLoss`, the largest at least three times the "
    "smallest, are the frequencies of the classes, instead of their inverse. Rare classes then count even less than "
    "without weights. The targets of the first two backward passes at a place are counted, at least 50 in all; of "
    "binary targets, at most a quarter are positive.",
    "Use `pos_weight=negatives / positives`, or `weight=1 / frequency` for each class.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/amanshenoy/multilogue-net/issues/21",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html",
    ),
)

_PASSES: Final = 2
_FEWEST: Final = 50
_LARGEST: Final = 0.5
_RARE: Final = 0.25
_SPREAD: Final = 3.0
_DEVIATIONS: Final = 3.0
"""How many standard deviations a count may lie off what the weights suggest."""


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    for of_process in evidence.of_processes:
        findings += _of_process(of_process)
    return Sight(findings, [*evidence.device_words, *evidence.compiled_words]) if findings else None


def _of_process(of_process: ProcessEvidence) -> list[Finding]:
    """The losses of one process whose weights are inverse."""
    counted: dict[tuple[str, str, tuple[float, ...]], list[tuple[float, ...]]] = {}
    steps: dict[tuple[str, str, tuple[float, ...]], int] = {}
    for event, backward_place, made in of_process.acts.patterns:
        if event.what in ("positive-weights", "class-weights"):
            size = len(event.values) // 2  # Weights, counts and, for positives, the number of all targets.
            numbers = tuple(map(float, event.values))
            weights, given = numbers[:size], numbers[size:]
            key = event.what, made or of_process.training.computed_at(backward_place), weights
            counted.setdefault(key, []).append(given)
            steps.setdefault(key, event.step)
    found = []
    for key, passes in counted.items():
        what, place, weights = key
        counts = [sum(each) for each in zip(*passes, strict=True)]
        reason = (_of_positives if what == "positive-weights" else _of_classes)(weights, counts)
        if reason and len(passes) >= _PASSES:
            found.append(INVERSE.finding("loss", reason, [of_process.process.rank], step=steps[key], place=place))
    return found


def _of_positives(weights: Sequence[float], counts: Sequence[float]) -> str:
    """In words, that weights of positives are those of negatives; "" if they are not."""
    *positives, samples = counts
    whole = samples * len(weights)
    if whole < _FEWEST or sum(positives) > _RARE * whole or not all(0 < each < _LARGEST for each in weights):
        return ""
    rates = [each / (1 + each) for each in weights]
    expected, variance = samples * sum(rates), samples * sum(each * (1 - each) for each in rates)
    if not sum(positives) or abs(sum(positives) - expected) > _DEVIATIONS * variance**0.5:
        return ""
    smallest = min(weights)
    return f"pos_weight is {smallest:.3g}, but only {sum(positives):,.0f} of {whole:,.0f} targets are positive"


def _of_classes(weights: Sequence[float], counts: Sequence[float]) -> str:
    """In words, that weights are the frequencies of classes; "" if they are not."""
    whole, weight = sum(counts), sum(weights)
    if whole < _FEWEST or len(weights) < 2 or min(weights) <= 0 or max(weights) < _SPREAD * min(weights):
        return ""
    expected = [whole * each / weight for each in weights]
    if any(
        abs(count - mean) > _DEVIATIONS * (mean * (1 - mean / whole)) ** 0.5
        for count, mean in zip(counts, expected, strict=True)
    ):
        return ""
    most = max(range(len(counts)), key=weights.__getitem__)
    return f"class {most} has the largest weight, and {counts[most]:,.0f} of {whole:,.0f} targets"


CHECK: Final = Check("class weights", "class weights make up for how often classes occur", _look, (INVERSE,))
"""Present only if it finds something, because few losses have weights."""
