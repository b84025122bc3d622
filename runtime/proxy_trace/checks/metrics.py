"""Checks that a metric counts all batches, and those of one epoch.

`correct = (prediction == y).sum()` in a loop over batches keeps the number of the last batch alone, where `correct +=`
was meant. Nothing fails: the accuracy is that of the last batch, or too small by the number of batches. `correct = 0`
above the loop over epochs, not in it, adds up all epochs: the accuracy is above 1 in the second. And `len(loader)` is
the number of batches, not of samples; likewise `len(loader.dataset)` is not the number of averaged losses that were
added up. `argmax()` without a dimension gives one index for the whole batch; that of a single score is always 0. And
`[n, 1] == [n]` compares each prediction with all labels. Two boxes that lie apart have two negative sides as their
intersection, the product of which is positive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.process.acts_summary import LoaderSummary, PlacedSource

LAST_BATCH: Final = Rule(
    "metric-of-last-batch",
    WARNING,
    "Metrics of the last batch alone",
    "In the code of the training program, a loop over batches assigns a number to a variable that was 0 before the "
    "loop and that the loop never reads; after the loop, the variable is divided. The number is a count of equal "
    "values, or the divisor is the number of batches or samples. So the metric has only the last batch. Loops over "
    "data loaders that have a single batch are not reported.",
    "Add up: `correct += (prediction == y).sum().item()`.",
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/xiaolai-sqlai/gluon-reid/issues/8",
        "https://github.com/ManifoldRG/MultiNet/pull/767",
    ),
)
NOT_RESET: Final = Rule(
    "metric-not-reset",
    WARNING,
    "Metrics that no epoch sets back",
    "In the code of the training program, a loop over batches adds to a count of correct predictions, an accuracy or a "
    "loss. The loop is in another one, such as that over epochs, which divides the sum by a number that stays the same "
    "in all epochs. The sum is set to 0 above both loops, and nothing sets it back. So it has all epochs until then, "
    "and an accuracy rises above 1.",
    "Set it to 0 at the top of each epoch.",
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/MichiganCOG/ViP/issues/34",
        "https://github.com/KAIST-vilab/OC-CSE/pull/4",
    ),
)
PER_BATCH: Final = Rule(
    "metric-per-batch",
    WARNING,
    "Counts of samples divided by the number of batches",
    "In the code of the training program, a loop over a data loader with several samples in a batch adds up the number "
    "of equal values, such as correct predictions. After the loop, the sum is divided by `len(loader)`, which is the "
    "number of batches. So the accuracy is too high by the size of a batch, and may be above 1.",
    "Divide by the number of samples: `correct / len(loader.dataset)`, or a counter, `total += len(y)`.",
    "show {run} --kind source_pattern,loading",
    sources=(
        "https://github.com/machine-perception-robotics-group/MPRGDeepLearningLectureNotebook/issues/4",
        "https://github.com/MinSong2/yonlu/pull/1",
    ),
)
PER_SAMPLE: Final = Rule(
    "loss-per-sample",
    WARNING,
    "Averaged losses divided by the number of samples",
    "In the code of the training program, a loop over a data loader with several samples in a batch adds up losses "
    "of torch, each of which is the average of its batch by default. After the loop, the sum is divided by the number "
    "of samples: `len(loader.dataset)`, or a variable that counts them. So the result is too low by the size of a "
    "batch. The loss that is trained on is not affected.",
    "Divide by the number of batches, `total / len(loader)`, or add up `loss.item() * len(y)`.",
    "show {run} --kind source_pattern,loading",
    sources=(
        "https://github.com/pytorch/tutorials/issues/179",
        "https://github.com/mahmoodlab/PathomicFusion/pull/3",
        "https://github.com/miyamotok0105/pytorch_handbook/issues/4",
    ),
)
BROADCAST: Final = Rule(
    "metric-broadcasts",
    WARNING,
    "Counts of correct predictions over all pairs",
    "The code that calls a model counts how often its output, or the index of the largest score in each row, equals "
    "labels of another shape: `[n, 1]` and `[n]`. So each prediction is compared with every label, and an accuracy "
    "may be above 1. This is told by the shapes at the first call at each place, and by the code, which changes no "
    "shape in between.",
    "Give both the same shape, such as by `output.squeeze(1)` or `labels.unsqueeze(1)`.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/935963004/LaBraM/issues/15",
        "https://github.com/traja-team/traja/issues/57",
    ),
)
OF_BATCH: Final = Rule(
    "argmax-of-batch",
    WARNING,
    "Predictions that are one index for a whole batch",
    "In the code of the training program, a loop over a data loader with several samples in a batch compares an "
    "`argmax()` without a dimension with the labels of a batch, and adds up or averages the result. The `argmax` is "
    "the index of the largest score of all samples, counted through the whole batch.",
    "Pass the dimension of the classes: `scores.argmax(dim=1)`.",
    "show {run} --kind source_pattern,loading",
    sources=("https://github.com/Zasder3/train-CLIP/issues/6",),
)
INTERSECTION: Final = Rule(
    "intersection-not-clamped",
    WARNING,
    "Intersections of boxes that are not clamped at 0",
    "In the code of the training program, the width and the height of the intersection of two boxes, each the lower of "
    "two ends minus the higher of two beginnings, are multiplied. Nothing clamps them at 0, and the function compares "
    "neither them nor the coordinates with anything. For two boxes apart in both directions, both are negative, and "
    "their product is positive: so boxes far apart have a large intersection, which may be above their union.",
    "Clamp each side before the product: `(right - left).clamp(min=0) * (bottom - top).clamp(min=0)`.",
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/yhenon/keras-frcnn/pull/45",
        "https://github.com/enggen/Deep-Learning-Coursera/pull/4",
    ),
)

OF_ONE: Final = Rule(
    "argmax-of-one-score",
    WARNING,
    "Predictions that are always class 0",
    "The code that calls a model takes the index of the largest score in each row of its output, and counts how often "
    "it equals the labels. The output has the shape `[n, 1]`: a row has one score, so its index is always 0. The "
    "accuracy is the share of class 0, whatever the model has learnt. This is told by the shapes at the first call at "
    "each place, and by the code, which changes no shape in between.",
    "Compare the score with a threshold: `logits > 0`, or `probabilities > 0.5`.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/interpretml/interpret-community/pull/451",
        "https://github.com/meta-pytorch/captum/issues/1122",
    ),
)

_OF_BATCHES: Final = {
    "count-per-batch": (PER_BATCH, "it counts samples, and is divided by the number of batches"),
    "loss-per-sample": (PER_SAMPLE, "it adds up averages of batches, and is divided by the number of samples"),
    "argmax-of-batch": (OF_BATCH, "it is one index for all samples of a batch"),
}
"""What is wrong only where batches have several samples, by the pattern in the source."""
_ALWAYS: Final = {
    "count-not-reset": (NOT_RESET, "it is divided as that of one epoch, and has all epochs so far"),
    "intersection-unclamped": (
        INTERSECTION,
        "both factors are negative for boxes apart, and their product is positive",
    ),
}
"""What is wrong in any loop, by the pattern in the source."""


def _look(evidence: Evidence) -> Sight | None:
    findings = [
        LAST_BATCH.finding(
            source.event.names[0],
            "each batch overwrites it, so that only the last one counts",
            [of_process.process.rank],
            place=source.place,
        )
        for of_process in evidence.of_processes
        for source in of_process.acts.sources
        if source.event.what == "count-overwritten"
        and not _has_one_batch(source, list(of_process.acts.loaders.values()))
    ]
    findings += [
        rule.finding(source.event.names[0], reason, [of_process.process.rank], place=source.place)
        for of_process in evidence.of_processes
        for source in of_process.acts.sources
        if source.event.what in _ALWAYS
        for rule, reason in (_ALWAYS[source.event.what],)
    ]
    findings += [
        rule.finding(source.event.names[0], reason, [of_process.process.rank], place=source.place)
        for of_process in evidence.of_processes
        for source in of_process.acts.sources
        if source.event.what in _OF_BATCHES and _has_batches(source, list(of_process.acts.loaders.values()))
        for rule, reason in (_OF_BATCHES[source.event.what],)
    ]
    for of_process in evidence.of_processes:
        names = {module.id: module.name for module in of_process.process.modules}
        for event, _, made in of_process.acts.patterns:
            if event.what == "count-broadcasts":
                output, labels = list(event.shape), [int(size) for size in event.values]
                reason = f"its output {output} is compared with labels {labels}, each with all"
                rank = [of_process.process.rank]
                findings.append(BROADCAST.finding(names.get(event.module, ""), reason, rank, place=made))
            elif event.what == "index-of-one-score":
                reason = f"the index of the largest score is taken of its output {list(event.shape)}, and is always 0"
                rank = [of_process.process.rank]
                findings.append(OF_ONE.finding(names.get(event.module, ""), reason, rank, place=made))
    return Sight(findings) if findings else None


def _has_batches(source: PlacedSource, loaders: list[LoaderSummary]) -> bool:
    """Whether the data loaders of a loop are known, and have several samples in a batch."""
    sizes = [loader.last.batch_size for loader in loaders if loader.place == source.other]
    return bool(sizes) and all(size > 1 for size in sizes)


def _has_one_batch(source: PlacedSource, loaders: list[LoaderSummary]) -> bool:
    """Whether the data loaders of a loop have a single batch each."""
    batches = [loader.last.batches for loader in loaders if loader.place == source.other]
    return bool(batches) and all(count == 1 for count in batches)


CHECK: Final = Check(
    "metrics",
    "metrics count all batches",
    _look,
    (LAST_BATCH, NOT_RESET, PER_BATCH, PER_SAMPLE, OF_BATCH, OF_ONE, BROADCAST, INTERSECTION),
)
"""Applies if the source shows a metric that does not, or is computed wrongly."""
