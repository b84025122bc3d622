"""Checks that a metric counts all batches.

`correct = (prediction == y).sum()` in a loop over batches keeps the number of the last batch alone, where `correct +=`
was meant. Nothing fails: the accuracy is that of the last batch, or too small by the number of batches.
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
    return Sight(findings) if findings else None


def _has_one_batch(source: PlacedSource, loaders: list[LoaderSummary]) -> bool:
    """Whether the data loaders of a loop have a single batch each."""
    batches = [loader.last.batches for loader in loaders if loader.place == source.other]
    return bool(batches) and all(count == 1 for count in batches)


CHECK: Final = Check("metrics", "metrics count all batches", _look, (LAST_BATCH,))
"""Applies if the source shows a metric that does not."""
