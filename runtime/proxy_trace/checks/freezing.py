"""Checks that parameters which the script freezes are frozen, and those that it unfreezes are not.

`parameter.require_grad = False` and `module.requires_grad = False` create a new attribute, and freeze nothing. Neither
does `module.requires_grad = True` unfreeze anything.

A low-rank adapter consists of two matrices. The second is zero at first, so that the adapter adds nothing. If both are
frozen then, it never will.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import ERROR, WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ProcessEvidence, TensorSummary

NO_EFFECT: Final = Rule(
    "freeze-has-no-effect",
    ERROR,
    "Freezing that has no effect",
    "Parameters have an attribute that is a misspelt `requires_grad`, or a module that contains them has an attribute "
    "of that name, and it is `False`; an optimizer changed the parameters nevertheless. Or a module was given such an "
    "attribute during training, and it is `True`, but frozen parameters of the module, which an optimizer has, stayed "
    "frozen and never changed. Or, as a warning: the source sets `requires_grad` of some parameters of a model to "
    "`False`, and a loop over all of them, before anything is trained, sets it to `True` again.",
    "Call `requires_grad_(False)`, or `requires_grad_(True)`, on the module or the parameter. Freeze after all that "
    "unfreezes.",
    "history {run} {name}",
    "parameter",
    ("https://github.com/HengyiWang/Co-SLAM/issues/12",),
)
ADAPTERS: Final = Rule(
    "adapters-frozen",
    WARNING,
    "Adapters that are frozen while they are still zero",
    "Two frozen matrices of a module form a low-rank adapter: their shapes are `[r, n]` and `[m, r]`, or the "
    "transposed ones, with `r` smaller than the other sizes. The second matrix was zero from the start to the end. So "
    "the adapter adds nothing, and is not trained. Other parameters of the model were trained, in at least ten steps, "
    "but no adapter of the process was. Needs level INFO.",
    "Freeze the model before the adapters are added to it, or unfreeze them afterwards.",
    "history {run} {name}",
    "parameter",
    ("https://github.com/huggingface/transformers/issues/26098",),
    explains=("frozen",),
)
_MATRIX: Final = 2
"""The dimensions of a matrix."""
_FEWEST_STEPS: Final = 10
_UNDONE: Final = NO_EFFECT._replace(severity=WARNING)


def _look(evidence: Evidence) -> Sight:
    findings = []
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        findings += _frozen_adapters(of_process, tree)
        tensors = {tensor.id: tensor for tensor in of_process.process.tensors}
        for event, place in of_process.acts.freezings:
            tensor = tensors.get(event.tensor)
            if tensor is None:
                continue
            stays_frozen = not tensor.requires_grad and not tensor.has_changed
            if stays_frozen if event.unfreezes else tensor.is_stepped and tensor.has_changed:
                does_not = "unfreeze" if event.unfreezes else "freeze"
                reason = f"`{event.attribute} = {event.unfreezes}` does not {does_not} it"
                rank = [of_process.process.rank]
                findings.append(NO_EFFECT.finding(tensor.name, reason, rank, event.count, place=place))
        for source, place, other in of_process.acts.sources:
            if source.what == "freeze-undone":
                reason = f"a loop over all parameters unfreezes what was frozen at {other}"
                rank = [of_process.process.rank]
                findings.append(_UNDONE.finding(source.names[0], reason, rank, place=place))
    if not any(each.training.optimizers for each in evidence.of_processes):
        return Sight(findings, evidence.unseen_training("an optimizer"), has_looked=False)
    return Sight(findings)


def _frozen_adapters(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """The finding about the adapters of one process, if all of them are frozen and without effect."""
    modules = {module.id: module for module in of_process.process.modules}
    parameters = [each for each in of_process.process.tensors if not (each.is_buffer or each.removed)]
    trained = {tree.root_of(each.module) for each in parameters if each.has_changed and each.is_stepped}
    steps = max((each.steps for each in of_process.training.optimizers.values()), default=0)
    of_modules: dict[int, list[TensorSummary]] = {}
    for each in parameters:
        called = [above.id for above in tree.upwards(each.module) if above.calls or above.id == each.module]
        for number in called[:2]:  # The module itself, and the one that calls it.
            of_modules.setdefault(number, []).append(each)
    seconds: dict[int, TensorSummary] = {}
    for own in of_modules.values():
        seconds.update((second.id, second) for second in own if any(_are_adapter(first, second) for first in own))
    idle = [each for each in seconds.values() if _is_zero(each)]
    is_called = all(each.module in modules and modules[each.module].training_calls for each in idle)
    is_trained = bool(idle) and tree.root_of(idle[0].module) in trained
    if len(idle) < len(seconds) or not (is_called and is_trained) or steps < _FEWEST_STEPS:
        return []
    freezes = [place for event, place, _ in of_process.acts.sources if event.what == "model-frozen"]
    holder = modules.get(idle[0].module)
    place = freezes[0] if len(freezes) == 1 else "" if holder is None else holder.origin
    reason = "it is frozen and zero, so the adapter that it is part of adds nothing"
    concerns = [f"{roots.name}.*" for roots in tree.roots if roots.id == tree.root_of(idle[0].module)]
    rank = [of_process.process.rank]
    return [ADAPTERS.finding(idle[0].name, reason, rank, len(idle), place=place, concerns=concerns)]


def _are_adapter(first: TensorSummary, second: TensorSummary) -> bool:
    """Whether two matrices multiply to a larger one of low rank, and only the second may be zero at first."""
    if len(first.sizes) != _MATRIX or len(second.sizes) != _MATRIX or first.requires_grad != second.requires_grad:
        return False
    (rows, columns), (others, inner) = first.sizes, second.sizes
    if rows != inner:  # As raw parameters that are multiplied from the left.
        rows, columns, others, inner = columns, rows, inner, others
    is_low = rows == inner < min(columns, others)
    return is_low and _is_zero_at_first(second) and not _is_zero_at_first(first)


def _is_zero_at_first(tensor: TensorSummary) -> bool:
    return tensor.first is not None and tensor.first.minimum == tensor.first.maximum == 0


def _is_zero(tensor: TensorSummary) -> bool:
    """Whether a matrix is zero and frozen for the whole run."""
    is_left = not (tensor.requires_grad or tensor.gradients or tensor.has_changed)
    return is_left and _is_zero_at_first(tensor)


_RULES: Final = (NO_EFFECT, ADAPTERS)

CHECK: Final = Check("freezing", "what the script freezes is frozen, and what it unfreezes is not", _look, _RULES)
