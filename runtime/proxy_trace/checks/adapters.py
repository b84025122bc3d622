"""Checks that low-rank adapters can be trained.

A low-rank adapter multiplies two matrices. The second is zero at first, so that the adapter adds nothing. If both are
frozen then, it never will, and neither if the first is zero as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import ERROR, WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ProcessEvidence, TensorSummary

FROZEN: Final = Rule(
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
ZERO: Final = Rule(
    "adapters-zero",
    ERROR,
    "Adapters whose two factors are zero",
    "Two matrices of a module form a low-rank adapter: their shapes are `[r, n]` and `[m, r]`, or the transposed ones, "
    "with `r` smaller than the other sizes. Both began as zeros. The gradient of each is a product with the other, so "
    "it is zero, too: an optimizer had both in at least ten steps, found only zeros as gradients, and they never "
    "changed. The place is the line that fills the second one. Needs level INFO.",
    "Fill one of the two with zeros, and the other with random numbers: `nn.init.kaiming_uniform_(self.lora_A)` and "
    "`nn.init.zeros_(self.lora_B)`.",
    "history {run} {name}",
    "parameter",
    (
        "https://github.com/Guitaricet/relora/issues/18",
        "https://github.com/NovaSky-AI/SkyRL/pull/852",
        "https://github.com/nvidia-cosmos/cosmos-predict2.5/pull/15",
    ),
    explains=("dead-units", "loss-constant", "never-updated"),
)
_MATRIX: Final = 2
"""The dimensions of a matrix."""
_FEWEST_STEPS: Final = 10


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        steps = max((each.steps for each in of_process.training.optimizers.values()), default=0)
        if steps >= _FEWEST_STEPS:
            pairs = list(_pairs(of_process, tree))
            findings += [*_frozen(of_process, tree, pairs), *_zero(of_process, pairs)]
    return Sight(findings) if findings else None


def _pairs(of_process: ProcessEvidence, tree: ModuleTree) -> Iterator[tuple[TensorSummary, TensorSummary]]:
    """The pairs of matrices of a module, or of the modules that it calls, that multiply to a larger one."""
    of_modules: dict[int, list[TensorSummary]] = {}
    for each in of_process.process.tensors:
        if not (each.is_buffer or each.removed) and len(each.sizes) == _MATRIX:
            called = [above.id for above in tree.upwards(each.module) if above.calls or above.id == each.module]
            for number in called[:2]:  # The module itself, and the one that calls it.
                of_modules.setdefault(number, []).append(each)
    for own in of_modules.values():
        yield from ((first, second) for first in own for second in own if _are_factors(first, second))


def _frozen(
    of_process: ProcessEvidence, tree: ModuleTree, pairs: Sequence[tuple[TensorSummary, TensorSummary]]
) -> list[Finding]:
    """The finding about the adapters of one process, if all of them are frozen and without effect."""
    modules = {module.id: module for module in of_process.process.modules}
    parameters = [each for each in of_process.process.tensors if not (each.is_buffer or each.removed)]
    trained = {tree.root_of(each.module) for each in parameters if each.has_changed and each.is_stepped}
    seconds = {
        second.id: second
        for first, second in pairs
        if first.requires_grad == second.requires_grad and _was_zero(second) and not _was_zero(first)
    }
    idle = [each for each in seconds.values() if not (each.requires_grad or each.gradients or each.has_changed)]
    is_called = all(each.module in modules and modules[each.module].training_calls for each in idle)
    is_trained = bool(idle) and tree.root_of(idle[0].module) in trained
    if len(idle) < len(seconds) or not (is_called and is_trained):
        return []
    freezes = [place for event, place, _ in of_process.acts.sources if event.what == "model-frozen"]
    holder = modules.get(idle[0].module)
    place = freezes[0] if len(freezes) == 1 else "" if holder is None else holder.origin
    reason = "it is frozen and zero, so the adapter that it is part of adds nothing"
    concerns = [f"{roots.name}.*" for roots in tree.roots if roots.id == tree.root_of(idle[0].module)]
    rank = [of_process.process.rank]
    return [FROZEN.finding(idle[0].name, reason, rank, len(idle), place=place, concerns=concerns)]


def _zero(of_process: ProcessEvidence, pairs: Sequence[tuple[TensorSummary, TensorSummary]]) -> list[Finding]:
    """The finding about the adapters of one process whose two factors are zero."""
    stuck = [(first, second) for first, second in pairs if first.id < second.id and _stays_zero(first, second)]
    if not stuck:
        return []
    modules = {module.id: module for module in of_process.process.modules}
    first, second = stuck[0]
    holder = modules.get(second.module)
    place = second.filled_place or ("" if holder is None else holder.origin)
    reason = f"it is zero, and so is {first.name}, with which it is multiplied: neither ever gets a gradient"
    factors = {each.id: each.name for pair in stuck for each in pair}
    optimizers = of_process.training.optimizers.values()
    concerns = [*factors.values(), *(each.name for each in optimizers if set(each.tensors) <= set(factors))]
    rank = [of_process.process.rank]
    return [ZERO.finding(second.name, reason, rank, len(factors), place=place, concerns=concerns)]


def _are_factors(first: TensorSummary, second: TensorSummary) -> bool:
    """Whether two matrices multiply to a larger one of low rank."""
    (rows, columns), (others, inner) = first.sizes, second.sizes
    if rows != inner:  # As raw parameters that are multiplied from the left.
        rows, columns, others, inner = columns, rows, inner, others
    return rows == inner < min(columns, others)


def _was_zero(tensor: TensorSummary) -> bool:
    return tensor.first is not None and tensor.first.minimum == tensor.first.maximum == 0


def _stays_zero(*tensors: TensorSummary) -> bool:
    """Whether an optimizer had matrices of zeros, with nothing but zeros as gradients, and left them as they were."""
    return all(
        _was_zero(each)
        and each.is_stepped
        and each.gradients >= _FEWEST_STEPS
        and not (each.has_nonzero_gradient or each.has_changed or each.missing_gradients)
        for each in tensors
    )


CHECK: Final = Check("adapters", "low-rank adapters can be trained", _look, (FROZEN, ZERO))
"""Present only if it finds something, because few programs have adapters."""
