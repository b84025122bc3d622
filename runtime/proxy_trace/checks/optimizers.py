"""Optimizers have the parameters of the models that are trained.

An optimizer keeps the tensors that it was made from. If the model is copied, replaced or given new parameters after
that, it goes on to step the old ones: backward passes reach the new ones, which nobody steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.rule import Rule
from proxy_trace.findings import WARNING

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.findings import Finding
    from proxy_trace.module_tree import ModuleTree
    from proxy_trace.process_summary import ProcessEvidence, TensorSummary

OTHER_MODEL: Final = Rule(
    "optimizer-of-other-model",
    WARNING,
    "Optimizers of other models",
    "None of the tensors of an optimizer that stepped is a parameter of a traced model now. A traced model has as many "
    "parameters, or as many trainable ones, and of these some had gradients, none was in a step, and none has changed.",
    "Make the optimizer after the last change of the model: after it was copied, wrapped, moved, given another head or "
    "loaded as a whole; or call `load_state_dict`, which keeps the tensors.",
    "show {run} --kind optimizer",
    sources=("https://docs.pytorch.org/docs/stable/optim.html#constructing-it",),
)


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        findings += _strangers(of_process, tree)
    if not any(each.training.optimizers for each in evidence.of_processes):
        return Sight((), evidence.unseen_training("step of an optimizer"), has_looked=False)
    return Sight(findings, [*evidence.sampling_words, *evidence.watching_words])


def _strangers(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """The optimizers of one process that have the parameters of a model which is no more, or is not traced."""
    process = of_process.process
    of_roots: dict[int, list[TensorSummary]] = {}
    for tensor in process.tensors:
        if not (tensor.is_buffer or tensor.removed):
            of_roots.setdefault(tree.root_of(tensor.module), []).append(tensor)
    starving = {root: tensors for root, tensors in of_roots.items() if _is_starving(tensors)}
    names = {module.id: module.name for module in process.modules}
    found = []
    for optimizer in of_process.training.optimizers.values():
        others = sum(group.others for group in optimizer.groups)
        if any(group.tensors for group in optimizer.groups):
            continue
        for root, tensors in starving.items():
            if others in (len(tensors), sum(tensor.requires_grad for tensor in tensors)):
                reason = "none of its tensors is a parameter of a traced model"
                numbers = f"it has {others:,}; {names.get(root, '')} has as many, with gradients that nobody takes"
                place = optimizer.place
                found.append(
                    OTHER_MODEL.finding(optimizer.name, reason, [process.rank], place=place, evidence=[numbers])
                )
    return found


def _is_starving(parameters: list[TensorSummary]) -> bool:
    """Whether some parameters of a model had gradients, and none was ever in a step or has changed."""
    return any(each.gradients for each in parameters) and not any(
        each.is_stepped or each.has_changed for each in parameters
    )


CHECK: Final = Check("optimizers", "optimizers have parameters of the models that are trained", _look, (OTHER_MODEL,))
