"""Models were trained in training mode.

`model.eval()` for a validation, and no `model.train()` after it: from then on dropout drops nothing, and batch norm
uses running statistics that no longer move. The loss goes on falling.

The mode is that of the root module at its last call before each step of an optimizer that has parameters of it. It only
matters where a module below changes with it, as dropout and batch norm do.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.rule import Rule
from proxy_trace.findings import WARNING

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.module_tree import ModuleTree
    from proxy_trace.process_summary import ModuleSummary

TRAINED_IN_EVALUATION: Final = Rule(
    "trained-in-evaluation-mode",
    WARNING,
    "Models trained in evaluation mode",
    "A model with dropout or batch norm took steps in training mode, and from some step on all of them, at least "
    "two, in evaluation mode. A model that is in evaluation mode from the start may be meant to be, as for "
    "fine-tuning with fixed statistics; nothing is said of it.",
    "Call `model.train()` behind each validation, or at the top of each epoch.",
    "show {run} --kind call_module,optimizer_step",
    sources=("https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval",),
)

_CHANGES_WITH_MODE: Final = re.compile(r"(Sync)?BatchNorm|.*Dropout|InstanceNorm|RReLU|DropPath|StochasticDepth")
"""How the names of types begin whose modules do something else in evaluation mode."""


def _look(evidence: Evidence) -> Sight:
    findings = []
    is_any_told = False
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        process = of_process.process
        modules = {module.id: module for module in process.modules}
        for root_id, mode in of_process.training.modes.items():
            root = modules.get(root_id)
            if root is None:
                continue
            is_any_told = True
            if not mode.training or mode.evaluation < 2 or mode.last_training > mode.first_evaluation:
                continue
            changing = _changing(root, tree)
            if changing:
                numbers = [
                    f"{mode.evaluation:,} steps in evaluation mode, {mode.training:,} in training mode before",
                    f"which changes {', '.join(changing)}",
                ]
                reason = "in evaluation mode when it was called before a step"
                finding = TRAINED_IN_EVALUATION.finding(
                    root.name, reason, [process.rank], step=mode.first_evaluation, place=mode.place, evidence=numbers
                )
                findings.append(finding)
    if not is_any_told:
        unseen = evidence.compiled_words or evidence.unseen_training("an optimizer")
        return Sight((), unseen, has_looked=False)
    return Sight(findings, evidence.sampling_words)


def _changing(root: ModuleSummary, tree: ModuleTree) -> list[str]:
    """The types of modules below a root that do something else in evaluation mode."""
    pending = [root]
    found: dict[str, None] = {}
    while pending:
        module = pending.pop()
        if module.calls and _CHANGES_WITH_MODE.match(module.type):
            found[module.type] = None
        pending += tree.children(module)
    return sorted(found)


CHECK: Final = Check("modes", "models were trained in training mode", _look, (TRAINED_IN_EVALUATION,))
