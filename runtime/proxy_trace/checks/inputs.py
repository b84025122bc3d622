"""Checks that the inputs of first layers have the scale that layers are initialised for.

Layer weights are initialised for inputs around 0 with a deviation around 1. Raw pixel bytes, years or incomes saturate
later layers, or make gradients larger by the same factor. The trace has the values of the inputs of outermost modules
in their first calls, and says which went unchanged into a linear, convolutional or recurrent layer.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.training_summary import InputSummary

NOT_NORMALIZED: Final = Rule(
    "inputs-not-normalized",
    WARNING,
    "Inputs that are not normalised",
    "The input of a trained model went into a layer unchanged, a `Flatten` aside, and its root mean square was above "
    "50 in each of the first calls. Or this holds for the first calls in evaluation mode, although it was below 5 in "
    "training: only the training data are normalised. Layers that are followed by a normalisation are not judged, "
    "except by a batch norm in evaluation, which uses the statistics of training.",
    "Subtract the mean of the training data and divide by its standard deviation, for each column or channel; do the "
    "same with the data for evaluation.",
    "show {run} --kind input",
    sources=("LeCun et al., Efficient BackProp, 1998",),
    explains=("learning-rate-too-high", "dead-units", "vanishing-gradients"),
)

_LARGEST: Final = 50.0
_NORMAL: Final = 5.0
"""The largest root mean square of inputs of training that count as normalised."""
_SIZES: Final = re.compile(r"\[([\d, ]*)\]")


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    is_any = False
    for of_process in evidence.of_processes:
        process = of_process.process
        names = {module.id: module.name for module in process.modules}
        by_layer: dict[tuple[int, int, bool], list[InputSummary]] = {}
        for each in of_process.training.inputs:
            by_layer.setdefault((each.root, each.layer, each.is_evaluation), []).append(each)
        is_any |= bool(by_layer)
        for (root, layer, is_evaluation), inputs in by_layer.items():
            sizes = [_size(each) for each in inputs]
            called = of_process.training.roots.get(root)
            if (
                called is None
                or called.last_step < 0
                or min(sizes) <= _LARGEST
                or any(each.has_norm for each in inputs)
            ):
                continue
            trained = [_size(each) for each in by_layer.get((root, layer, False), ())]
            if is_evaluation and (not trained or not 0 < max(trained) <= _NORMAL):
                continue
            numbers = inputs[0].statistics
            words = [f"root mean square {sizes[0]:.3g}, from {numbers.minimum:.3g} to {numbers.maximum:.3g}"]
            words += [f"in training {max(trained):.3g}"] if is_evaluation else []
            mode = "in evaluation, " if is_evaluation else ""
            reason = f"{mode}its input went into {names.get(layer, '')} unchanged"
            rank, place = [process.rank], inputs[0].place
            findings.append(NOT_NORMALIZED.finding(names.get(root, ""), reason, rank, place=place, evidence=words))
    if not is_any:
        return Sight((), evidence.level_words or ["no values of inputs of layers"], has_looked=False)
    return Sight(findings)


def _size(given: InputSummary) -> float:
    """The root mean square of an input; 0 if it has non-finite values."""
    norm, minimum = given.statistics.norm, given.statistics.minimum
    found = _SIZES.search(given.type)
    if not isinstance(norm, float) or not isinstance(minimum, float) or found is None:
        return 0.0
    count = math.prod(int(size) for size in found[1].split(",") if size.strip())
    return norm / math.sqrt(count) if count else 0.0


CHECK: Final = Check("inputs", "inputs have the scale that layers are initialised for", _look, (NOT_NORMALIZED,))
