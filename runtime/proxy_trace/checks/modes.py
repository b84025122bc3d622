"""Checks that models were trained in training mode.

After `model.eval()` for validation without a following `model.train()`, dropout drops nothing, and batch norm uses
fixed running statistics. The loss goes on falling.

The mode is that of the root module at its last call before each step of an optimizer with parameters of it. It only
matters if a module below depends on it, as dropout and batch norm do.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ModuleSummary, ProcessEvidence
    from proxy_trace.process.training_summary import ModeSummary, RootSummary

TRAINED_IN_EVALUATION: Final = Rule(
    "trained-in-evaluation-mode",
    WARNING,
    "Models trained in evaluation mode",
    "A model with dropout or batch norm made steps in training mode and, from some step on, all further steps (at "
    "least two) in evaluation mode. Or it made all steps in evaluation mode, and the running statistics of its batch "
    "norms are still those of a new layer: means of 0 and variances of 1. A model that is in evaluation mode from the "
    "start with other statistics may be so on purpose, as in fine-tuning, and is not reported.",
    "Call `model.train()` after each validation, or at the top of each epoch.",
    "show {run} --kind call_module,optimizer_step",
    sources=("https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval",),
)

EVALUATED_IN_TRAINING: Final = Rule(
    "evaluated-in-training-mode",
    WARNING,
    "Models evaluated in training mode",
    "A model with dropout or batch norm was called in training mode with autograd off, as for a validation, and "
    "never in evaluation mode. Either it is trained, the first of these calls came after its first step and the last "
    "after its last step, and its output goes into no other model; or nothing trains it while other models are "
    "trained. Calls whose result is dropped, to update running statistics, do not count.",
    "Call `model.eval()` before an evaluation, and `model.train()` after it.",
    "show {run} --kind call_module,optimizer_step",
    sources=("https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval",),
)

_CHANGES_WITH_MODE: Final = re.compile(r"(Sync)?BatchNorm|.*Dropout|InstanceNorm|RReLU|DropPath|StochasticDepth")
"""Prefixes of type names of modules that depend on the mode."""
_NEW: Final = {"running_mean": 0.0, "running_var": 1.0}
"""The running statistics of a batch norm that has not been called in training mode."""


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
            is_never_normalised = _is_never_in_training(mode) and _has_new_statistics(root, of_process, tree)
            if not is_never_normalised and not _is_left_in_evaluation(mode, of_process.training.roots.get(root_id)):
                continue
            changing = _changing(root, tree)
            if changing:
                numbers = [
                    f"{mode.evaluation:,} steps in evaluation mode, {mode.training:,} in training mode before",
                    f"which changes {', '.join(changing)}",
                ]
                if mode.evaluated_at not in ("", mode.place):
                    numbers.append(f"in evaluation mode since it was called at {mode.evaluated_at}")
                numbers += ["its batch norms still have means of 0 and variances of 1"] * is_never_normalised
                reason = "in evaluation mode when it was called before a step"
                finding = TRAINED_IN_EVALUATION.finding(
                    root.name, reason, [process.rank], step=mode.first_evaluation, place=mode.place, evidence=numbers
                )
                findings.append(finding)
        for root_id, calls in of_process.training.roots.items():
            root = modules.get(root_id)
            changing = (
                []
                if root is None or not _is_evaluated_in_training(calls, root, of_process, tree)
                else _changing(root, tree)
            )
            if root is not None and changing:
                numbers = [f"{calls.blind_calls:,} calls with autograd off", f"which changes {', '.join(changing)}"]
                reason = "in training mode when it was evaluated"
                findings.append(
                    EVALUATED_IN_TRAINING.finding(
                        root.name,
                        reason,
                        [process.rank],
                        step=calls.first_blind,
                        place=calls.blind_place,
                        evidence=numbers,
                    )
                )
    if not is_any_told:
        has_stepped = any(each.steps for of in evidence.of_processes for each in of.training.optimizers.values())
        what = "a call of a model before a step of its optimizer" if has_stepped else "an optimizer"
        return Sight(findings, evidence.compiled_words or evidence.unseen_training(what), has_looked=bool(findings))
    return Sight(findings, evidence.sampling_words)


def _is_left_in_evaluation(mode: ModeSummary, root: RootSummary | None) -> bool:
    """Whether a model began in training mode and stayed in evaluation mode, for good or after each evaluation."""
    if not mode.training or mode.evaluation < 2:
        return False
    if mode.last_training < mode.first_evaluation:
        return True
    is_evaluated = root is not None and root.evaluated_calls > mode.evaluation
    return is_evaluated and mode.evaluation > mode.training


def _is_never_in_training(mode: ModeSummary) -> bool:
    return not mode.training and mode.evaluation >= 2


def _has_new_statistics(root: ModuleSummary, of_process: ProcessEvidence, tree: ModuleTree) -> bool:
    """Whether all running statistics below a root, of which there are some, have always been those of a new layer."""
    buffers = {
        each.name: each
        for each in of_process.process.tensors
        if each.is_buffer and not each.removed and tree.root_of(each.module) == root.id
    }
    own = [(each, _NEW[name]) for each in buffers.values() if (name := each.name.rpartition(".")[2]) in _NEW]
    return bool(own) and all(
        each.first is not None
        and each.first.minimum == each.first.maximum == value
        and not each.update_count
        and not each.has_changed
        for each, value in own
    )


def _is_evaluated_in_training(
    calls: RootSummary, root: ModuleSummary, of_process: ProcessEvidence, tree: ModuleTree
) -> bool:
    """Whether a root module's calls in training mode with autograd off evaluate it, or use it as a teacher."""
    if not calls.blind_calls or calls.evaluated_calls or calls.is_passed_on:
        return False
    if calls.last_step >= 0:
        return 0 <= calls.first_step < calls.first_blind and calls.last_blind > calls.last_step
    below = [each for each in of_process.process.tensors if tree.root_of(each.module) == root.id and not each.is_buffer]
    is_fixed = bool(below) and not any(each.updates or each.has_changed or each.gradients for each in below)
    return is_fixed and calls.blind_calls >= 2 and not calls.trained_calls and of_process.has_trained


def _changing(root: ModuleSummary, tree: ModuleTree) -> list[str]:
    """The types of modules below a root that depend on the mode."""
    pending = [root]
    found: dict[str, None] = {}
    while pending:
        module = pending.pop()
        if module.calls and _CHANGES_WITH_MODE.match(module.type) and module.settings.get("p") != 0:
            found[module.type] = None
        pending += tree.children(module)
    return sorted(found)


CHECK: Final = Check(
    "modes",
    "models were trained in training mode, and evaluated in evaluation mode",
    _look,
    (TRAINED_IN_EVALUATION, EVALUATED_IN_TRAINING),
)
