"""The running statistics of batch norms settle.

PyTorch's `momentum` is the weight of the new batch: 0.1 by default. Other libraries have that of the old statistics
(0.9, 0.99). With 0 the statistics stay what they were made with, with 0.9 and more they are those of the last batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.process.process_summary import ModuleSummary

NEVER_SETTLES: Final = Rule(
    "batch-norm-never-settles",
    WARNING,
    "Running statistics that never settle",
    "A batch norm with running statistics was called in training mode, and its `momentum` is 0, or 0.9 and more.",
    "Give PyTorch's batch norm one minus the momentum of another library; the default is 0.1.",
    "show {run} --kind module",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html",),
)

_LARGEST: Final = 0.9


def _look(evidence: Evidence) -> Sight | None:
    findings = []
    norms = 0
    for of_process in evidence.of_processes:
        wrong: dict[tuple[str, float], list[ModuleSummary]] = {}
        for module in of_process.process.modules:
            if not module.type.startswith(("BatchNorm", "SyncBatchNorm")) or module.removed:
                continue
            norms += 1
            momentum = module.settings.get("momentum")
            if (
                module.training_calls >= 2
                and module.settings.get("track_running_stats") is True
                and type(momentum) in (int, float)
                and isinstance(momentum, (int, float))
                and (momentum == 0 or momentum >= _LARGEST)
            ):
                wrong.setdefault((module.origin, float(momentum)), []).append(module)
        for (place, momentum), modules in wrong.items():
            reason = f"its momentum is {momentum:g}"
            rank, count = [of_process.process.rank], len(modules)
            numbers = [f"{count:,} batch norms were made there"] if count > 1 else []
            findings.append(NEVER_SETTLES.finding(modules[0].name, reason, rank, count, place=place, evidence=numbers))
    return Sight(findings) if norms else None


CHECK: Final = Check("batch norms", "running statistics of batch norms settle", _look, (NEVER_SETTLES,))
"""Only there if a model has batch norms."""
