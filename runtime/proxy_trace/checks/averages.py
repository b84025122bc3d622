"""Checks that averages of models follow their models.

A model should follow another one if its name says that it is an average (`ema`, `target`, `averaged`, ...), it began
with the values of that model, and it is called while that trains. The loop body `p = 0.99 * p + 0.01 * q` only
rebinds a variable. If only `parameters()` are averaged, batch norms keep their initial running statistics.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule
from proxy_trace.checks.updates import NEVER_UPDATED

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ProcessEvidence, TensorSummary

OLD_STATISTICS: Final = Rule(
    "average-keeps-old-statistics",
    WARNING,
    "Averages of models with outdated batch statistics",
    "A model has the same parameter names as another one. No step changes them, and yet they change, so it is an "
    "average or a copy. It was called in evaluation mode, but the running statistics of its batch norms never changed, "
    "while those of the other model did. Or it is an `AveragedModel` with an `SWALR` schedule that was called only in "
    "evaluation mode: its statistics belong to the last weights, not to the average.",
    "Copy the buffers at each update, `for a, b in zip(average.buffers(), model.buffers()): a.copy_(b)`; or call "
    "`torch.optim.swa_utils.update_bn(loader, average)` before evaluation.",
    "show {run} --kind update --name '*running_mean'",
    sources=(
        "https://github.com/CuriousAI/mean-teacher/issues/9",
        "https://github.com/pytorch/pytorch/issues/84053",
    ),
)

_NAME: Final = re.compile(
    r"(^|[_.])(ema|ma|swa|avg|average[ds]?|averaged_model|target|shadow|momentum|mean_teacher)([_.\d]|$)"
)
_TYPES: Final = re.compile(r"AveragedModel|.*(EMA|Ema|MovingAverage).*|MeanTeacher")
_OWNERS: Final = re.compile(r".*(EMA|Ema|MovingAverage)([^a-z].*)?|AveragedModel|MeanTeacher")
"""Names of classes that keep an average; `Emacs` is none."""
_RATE_OF_AVERAGING: Final = "SWALR"
_COUNT: Final = "n_averaged"
_FEWEST_CALLS: Final = 5
_FEWEST_STEPS: Final = 50
_STATISTICS: Final = ("running_mean", "running_var")


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    is_any = False
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        owned = {root.id for root in tree.roots if _OWNERS.fullmatch(root.owner)}
        averages = [
            root for root in tree.roots if _NAME.search(root.name) or _TYPES.match(root.type) or root.id in owned
        ]
        old = _with_old_statistics(of_process, tree) + _with_statistics_of_last(of_process, tree)
        findings += old
        is_any |= bool(averages or old)
        of_roots: dict[int, list[TensorSummary]] = {}
        for tensor in of_process.process.tensors:
            if not (tensor.is_buffer or tensor.removed):
                of_roots.setdefault(tree.root_of(tensor.module), []).append(tensor)
        for root in averages:
            if _stands_still(root.id, of_roots, of_process, tree, is_owned=root.id in owned):
                reason = "its name says that it is an average of a trained model, but it never changed"
                rank = [of_process.process.rank]
                findings.append(NEVER_UPDATED.finding(root.name, reason, rank, place=root.origin, concerns=[root.name]))
    return Sight(findings, evidence.sampling_words) if is_any else None


def _stands_still(
    root: int,
    of_roots: dict[int, list[TensorSummary]],
    of_process: ProcessEvidence,
    tree: ModuleTree,
    *,
    is_owned: bool,
) -> bool:
    """Whether a model began as a copy of another one, is called while that trains, and has never changed.

    An average that is owned by an averaging object needs only occasional calls, as for validation.
    """
    own = of_roots.get(root, [])
    calls = of_process.training.roots.get(root)
    if not own or calls is None or any(each.update_count or each.is_stepped or not each.is_compared for each in own):
        return False
    while_training = calls.trained_calls + calls.blind_calls + calls.evaluated_calls
    steps = sum(each.steps for each in of_process.training.optimizers.values())
    is_used = while_training >= 2 and steps >= _FEWEST_STEPS if is_owned else False
    if not is_used and while_training < max(_FEWEST_CALLS, steps // 2):
        return False
    values = [_bits(each) for each in own]
    return any(
        other != root
        and [_bits(each) for each in tensors] == values
        and sum(each.has_changed and each.is_stepped for each in tensors) * 2 > len(tensors)
        for other, tensors in of_roots.items()
        if tree.root_of(other) == other
    )


def _with_old_statistics(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """Models whose parameters follow another one that trains, while their batch statistics do not."""
    of_roots: dict[int, list[TensorSummary]] = {}
    for tensor in of_process.process.tensors:
        if not tensor.removed:
            of_roots.setdefault(tree.root_of(tensor.module), []).append(tensor)
    roots = {root.id: root for root in tree.roots}
    trained = [number for number, tensors in of_roots.items() if any(each.is_stepped for each in tensors)]
    found = []
    for number, tensors in of_roots.items():
        calls, root = of_process.training.roots.get(number), roots.get(number)
        statistics = [each for each in tensors if each.is_buffer and each.name.endswith(_STATISTICS)]
        if root is None or calls is None or not calls.evaluated_calls or not statistics:
            continue
        parameters = [each for each in tensors if not each.is_buffer]
        if any(each.is_stepped for each in parameters) or not any(each.update_count for each in parameters):
            continue
        if any(each.update_count or not each.is_compared for each in statistics):
            continue
        own = _relative_names(root.name, tensors)
        for other in trained:
            source = roots.get(other)
            if source is None or _relative_names(source.name, of_roots[other]) != own:
                continue
            if all(each.update_count for each in of_roots[other] if each.name.endswith(_STATISTICS)):
                reason = f"its running statistics never changed, those of {source.name} did"
                rank, numbers = [of_process.process.rank], [f"{len(statistics):,} buffers"]
                found.append(OLD_STATISTICS.finding(root.name, reason, rank, place=root.origin, evidence=numbers))
                break
    return found


def _with_statistics_of_last(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """Averages of stochastic weight averaging that were evaluated without a batch in training mode."""
    if not any(each.name == _RATE_OF_AVERAGING for each in of_process.training.schedulers.values()):
        return []
    found = []
    for root in tree.roots:
        calls = of_process.training.roots.get(root.id)
        if root.type != "AveragedModel" or calls is None or not calls.evaluated_calls:
            continue
        statistics = [
            each
            for each in of_process.process.tensors
            if tree.root_of(each.module) == root.id and each.name.endswith(_STATISTICS) and not each.removed
        ]
        if statistics and not (calls.trained_calls or calls.blind_calls):
            reason = "its running statistics belong to other weights"
            rank, numbers = [of_process.process.rank], [f"{len(statistics):,} buffers"]
            found.append(OLD_STATISTICS.finding(root.name, reason, rank, place=root.origin, evidence=numbers))
    return found


def _relative_names(root: str, tensors: list[TensorSummary]) -> set[str]:
    """The names of a model's tensors, relative to it, without the count that `AveragedModel` keeps."""
    names = (each.name for each in tensors if not each.name.endswith(f".{_COUNT}"))
    return {_relative(name, root) for name in names}


def _relative(name: str, root: str) -> str:
    """A name relative to its model; `AveragedModel(average)` calls its model `average`."""
    own = root.partition("(")[2].removesuffix(")") or root
    return name.removeprefix(f"{own}.")


def _bits(tensor: TensorSummary) -> str | None:
    return None if tensor.first is None else tensor.first.bits


CHECK: Final = Check("averages", "averages of models follow them", _look, (NEVER_UPDATED, OLD_STATISTICS))
"""Applies if a model is an average by its name or class, or keeps old batch statistics."""
