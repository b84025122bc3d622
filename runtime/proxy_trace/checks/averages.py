"""Averages of models move with what they are the averages of.

A model whose name says that it is an average (`ema`, `target`, `averaged`, ...), which began with the values of another
one that is trained, and is called while that trains, is to follow it. `p = 0.99 * p + 0.01 * q` in a loop only gives a
variable a new value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.updates import NEVER_UPDATED

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ProcessEvidence, TensorSummary

_NAME: Final = re.compile(
    r"(^|[_.])(ema|ma|swa|avg|average[ds]?|averaged_model|target|shadow|momentum|mean_teacher)([_.\d]|$)"
)
_TYPES: Final = re.compile(r"AveragedModel|.*(EMA|Ema|MovingAverage).*|MeanTeacher")
_FEWEST_CALLS: Final = 5


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    is_any = False
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        averages = [root for root in tree.roots if _NAME.search(root.name) or _TYPES.match(root.type)]
        is_any |= bool(averages)
        of_roots: dict[int, list[TensorSummary]] = {}
        for tensor in of_process.process.tensors:
            if not (tensor.is_buffer or tensor.removed):
                of_roots.setdefault(tree.root_of(tensor.module), []).append(tensor)
        for root in averages:
            if _stands_still(root.id, of_roots, of_process, tree):
                reason = "by its name an average of a model that trains, but it never moved"
                rank = [of_process.process.rank]
                findings.append(NEVER_UPDATED.finding(root.name, reason, rank, place=root.origin, concerns=[root.name]))
    return Sight(findings, evidence.sampling_words) if is_any else None


def _stands_still(
    root: int, of_roots: dict[int, list[TensorSummary]], of_process: ProcessEvidence, tree: ModuleTree
) -> bool:
    """Whether a model is what another one was at first, is called while that trains, and has never changed."""
    own = of_roots.get(root, [])
    calls = of_process.training.roots.get(root)
    if not own or calls is None or any(each.update_count or each.is_stepped or not each.is_compared for each in own):
        return False
    while_training = calls.trained_calls + calls.blind_calls + calls.evaluated_calls
    steps = sum(each.steps for each in of_process.training.optimizers.values())
    if while_training < max(_FEWEST_CALLS, steps // 2):
        return False
    values = [_bits(each) for each in own]
    return any(
        other != root
        and [_bits(each) for each in tensors] == values
        and sum(each.has_changed and each.is_stepped for each in tensors) * 2 > len(tensors)
        for other, tensors in of_roots.items()
        if tree.root_of(other) == other
    )


def _bits(tensor: TensorSummary) -> str | None:
    return None if tensor.first is None else tensor.first.bits


CHECK: Final = Check("averages", "averages of models move with them", _look, (NEVER_UPDATED,))
"""Only present if the name or the class of a model says that it is an average."""
