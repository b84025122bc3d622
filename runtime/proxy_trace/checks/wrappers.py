"""Checks that distributed models are called through their wrapper.

`DistributedDataParallel` averages gradients in the backward passes that follow a call of the wrapper. If the wrapped
model is called directly, each rank steps with its own gradients, and the ranks diverge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import ERROR
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence

AROUND: Final = Rule(
    "used-around-ddp",
    ERROR,
    "Models called without their wrapper",
    "A model was passed to `DistributedDataParallel`, and at least two backward passes followed training calls of the "
    "model, or of a part of it, that bypassed the wrapper; and its parameters diverge between the ranks.",
    "Call the wrapper for training: `ddp_model(x)`, not `model(x)`, `ddp_model.module(x)` or a part of it.",
    "ranks {run}",
    sources=("https://github.com/moojink/openvla-oft/issues/160",),
    explains=("ranks-part",),
)


def _look(evidence: Evidence) -> Sight | None:
    compared = evidence.comparison
    if evidence.world_size == 1 or not any(each.acts.around for each in evidence.of_processes):
        return None
    if compared is None:
        return Sight((), [evidence.not_compared or "the ranks were not compared"], has_looked=False)
    apart = [each.name for each in (*compared.drifted, *compared.never_agreed)]
    places: dict[tuple[str, str], list[int]] = {}
    for of_process in evidence.of_processes:
        modules = {module.id: module for module in of_process.process.modules}
        for number, passes in of_process.acts.around.items():
            module, root = modules.get(number), of_process.training.roots.get(number)
            if module is None or root is None or passes < 2:
                continue
            if any(name.startswith(f"{module.name}.") for name in apart):
                places.setdefault((module.name, root.outer_place), []).append(of_process.process.rank)
    ranks = sorted({rank for found in places.values() for rank in found})
    reason = "called without its DistributedDataParallel"
    concerns = sorted({name for name, _ in places})
    return Sight([AROUND.finding(name, reason, ranks, place=place, concerns=concerns) for name, place in places])


CHECK: Final = Check("wrappers", "distributed models are called through their wrapper", _look, (AROUND,))
"""Applies if a wrapped model was called directly."""
