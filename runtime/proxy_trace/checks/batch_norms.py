"""Checks that running statistics of batch norms converge, and that those of frozen ones stay the same.

PyTorch's `momentum` is the weight of the new batch, 0.1 by default. In other libraries it is the weight of the old
statistics (0.9, 0.99). With 0, the statistics keep their initial values; with 0.9 or more, they follow the last batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ModuleSummary, ProcessEvidence, TensorSummary

NEVER_SETTLES: Final = Rule(
    "batch-norm-never-settles",
    WARNING,
    "Running statistics that never settle",
    "A batch norm with running statistics was called in training mode, and its `momentum` is 0, or 0.9 and more.",
    "PyTorch's momentum is one minus that of other libraries, and 0.1 by default: convert the value.",
    "show {run} --kind module",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html",),
)

FROZEN_MOVES: Final = Rule(
    "frozen-batch-norm-moves",
    WARNING,
    "Running statistics of frozen batch norms that move",
    "The weight and the bias of a batch norm are frozen and did not change, but its running statistics did, between "
    "at least five optimizer steps. The frozen weights were learned with the old statistics.",
    "Call `eval()` on the frozen part after each `model.train()`, or in a `train` method of the model.",
    "history {run} {name}",
    sources=("https://github.com/pgniewko/gt-pyg/issues/112",),
)

_LARGEST: Final = 0.9
_FEWEST_MOVES: Final = 5
"""More moves than while a GAN's critic is frozen for the generator's steps."""


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    norms = 0
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        findings += _frozen(of_process, tree)
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


def _frozen(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """The frozen batch norms of one process whose statistics moved, grouped by root module."""
    if not any(each.steps for each in of_process.training.optimizers.values()):
        return []
    of_modules: dict[int, list[TensorSummary]] = {}
    for tensor in of_process.process.tensors:
        if not tensor.removed:
            of_modules.setdefault(tensor.module, []).append(tensor)
    moved: dict[int, list[ModuleSummary]] = {}
    for module in of_process.process.modules:
        if module.type.startswith(("BatchNorm", "SyncBatchNorm")) and module.training_calls >= 2 and not module.removed:
            own = of_modules.get(module.id, [])
            if any(each.frozen_moves >= _FEWEST_MOVES for each in own):
                moved.setdefault(tree.root_of(module.id), []).append(module)
    found = []
    for root, modules in moved.items():
        calls = of_process.training.roots.get(root)
        place = modules[0].called_place if calls is None or not calls.place else calls.place
        reason = "its weights are frozen, and its running statistics moved"
        rank, count = [of_process.process.rank], len(modules)
        found.append(FROZEN_MOVES.finding(modules[0].name, reason, rank, count, place=place))
    return found


CHECK: Final = Check("batch norms", "running statistics of batch norms settle", _look, (NEVER_SETTLES, FROZEN_MOVES))
"""Applies if a model has batch norms."""
