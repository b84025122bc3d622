"""Checks that tied weights stay tied.

An embedding and the output layer often share one weight. A copy of the weight has the same values at first, and
diverges at the first step. Two parameters in the same memory keep the same values, but each has its own part of the
gradient, and its own step.
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
    from proxy_trace.process.process_summary import ProcessEvidence, TensorSummary

APART: Final = Rule(
    "tied-weights-apart",
    WARNING,
    "Tied weights that have come apart",
    "The weights of an embedding and of a linear layer in one model are two parameters that started with the same "
    "values, to the bit (and not all the same number), and optimizer steps changed both, to different values. Or a "
    "parameter had two names when the model was proxied, one of the names was then assigned another parameter, and "
    "steps changed both. Or the initialiser of a model assigns one weight to another name, and then a new parameter to "
    "one of the names. Or two parameters had the same values, to the bit, at the start and at the end, although "
    "steps with different gradients changed both: they are two tensors in the same memory, as after "
    "`a.data = b.data`. (If one is transposed, extremes are compared.) Each step then changes it twice, which makes no "
    "difference only for SGD without weight decay.",
    "Assign the parameter itself, `head.weight = embedding.weight`, after everything that creates new parameters: "
    "initialisation, loading a whole model, conversion, copying a part.",
    "history {run} {name}",
    sources=("https://github.com/NVIDIA/Megatron-LM/issues/656",),
)


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    is_any = False
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        found = _apart(of_process, tree)
        one = _in_one_memory(of_process)
        undone = _undone(of_process, tree)
        is_any |= bool(found is not None or one or undone) or any(each.aliases for each in of_process.process.tensors)
        findings += [*(found or []), *_replaced(of_process), *one, *undone]
    return Sight(findings, evidence.sampling_words) if is_any else None


def _apart(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding] | None:
    """Findings about layers whose weight began equal to an embedding of the model; None if it has no embedding."""
    modules = {module.id: module for module in of_process.process.modules}
    of_type: dict[str, list[TensorSummary]] = {"Embedding": [], "Linear": []}
    for tensor in of_process.process.tensors:
        module = modules.get(tensor.module)
        if module is not None and module.type in of_type and tensor.name.endswith(".weight") and not tensor.removed:
            of_type[module.type].append(tensor)
    if not of_type["Embedding"]:
        return None
    found = []
    for embedding in of_type["Embedding"]:
        for head in of_type["Linear"]:
            if tree.root_of(head.module) == tree.root_of(embedding.module) and _were_one(embedding, head):
                copied = (_place_of_tie(of_process, each.name, "copied-by-data") for each in (head, embedding))
                place = next(filter(None, copied), "") or modules[head.module].origin
                reason = f"it started equal to {embedding.name}, but is another parameter"
                found.append(APART.finding(head.name, reason, [of_process.process.rank], place=place))
    return found


def _replaced(of_process: ProcessEvidence) -> list[Finding]:
    """Findings about parameters that took one of several names of another parameter."""
    tensors = [each for each in of_process.process.tensors if not (each.is_buffer or each.removed)]
    modules = {module.id: module for module in of_process.process.modules}
    by_name = {each.name: each for each in tensors}
    found = []
    for tensor in tensors:
        for name in tensor.aliases:
            other = by_name.get(name)
            if other is not None and other is not tensor and _have_parted(tensor, other):
                holder = modules.get(other.module)
                reason = f"it was {tensor.name} when the model was proxied, and is another parameter now"
                rank, place = [of_process.process.rank], "" if holder is None else holder.origin
                found.append(APART.finding(name, reason, rank, place=place))
    return found


def _undone(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """Findings about weights that the initialiser of their model ties, and then replaces."""
    tensors = [each for each in of_process.process.tensors if not (each.is_buffer or each.removed)]
    found = []
    for event, place, other in of_process.acts.sources:
        if event.what != "tie-replaced":
            continue
        replaced, kept = (
            [each for each in tensors if f".{each.name}".endswith("." + name.removeprefix("self."))]
            for name in event.names
        )
        for one in replaced:
            root = tree.root_of(one.module)
            if any(tree.root_of(each.module) == root and _have_parted(one, each) for each in kept):
                reason = f"it was tied at {other}, and is another parameter since"
                found.append(APART.finding(one.name, reason, [of_process.process.rank], place=place))
    return found


def _in_one_memory(of_process: ProcessEvidence) -> list[Finding]:
    """Findings about parameters that steps change by their own gradients, and that have the values of another one."""
    modules = {module.id: module for module in of_process.process.modules}
    rank = [of_process.process.rank]
    separate = _stepped_apart(of_process)
    found: list[Finding] = []
    firsts: dict[tuple[object, ...], TensorSummary] = {}
    for tensor in of_process.process.tensors:
        first, last = tensor.first, tensor.last
        if tensor.id not in separate or not tensor.has_changed or first is None or last is None or tensor.removed:
            continue
        if first.bits is None or first.minimum == first.maximum:
            continue
        other = firsts.setdefault((first.minimum, first.maximum, last.minimum, last.maximum), tensor)
        if other is not tensor and _are_one(tensor, other) and other.largest_gradient != tensor.largest_gradient:
            holder = modules.get(tensor.module)
            place = _place_of_tie(of_process, tensor.name, "tied-by-data") or ("" if holder is None else holder.origin)
            reason = f"it shares the memory of {other.name}, but is another parameter, with its own gradient"
            found.append(APART.finding(tensor.name, reason, rank, place=place))
    return found


def _are_one(one: TensorSummary, other: TensorSummary) -> bool:
    """Whether two parameters with equal extremes have equal values, or one has the transposed shape of the other."""
    if one.type == other.type:
        pairs = ((one.first, other.first), (one.last, other.last))
        return all(each is not None and also is not None and each.bits == also.bits for each, also in pairs)
    return len(one.sizes) == len(("rows", "columns")) and one.sizes == other.sizes[::-1]


def _stepped_apart(of_process: ProcessEvidence) -> set[int]:
    """The parameters of optimizers for which it matters whether a gradient comes in one piece."""
    return {
        number
        for optimizer in of_process.training.optimizers.values()
        for group in optimizer.groups
        if optimizer.steps and (optimizer.name != "SGD" or group.settings.get("weight_decay"))
        for number in group.tensors
    }


def _place_of_tie(of_process: ProcessEvidence, name: str, what: str) -> str:
    """The line that gave a parameter the memory or the values of another one, by such a pattern; "" if unknown."""
    ties = [each for each in of_process.acts.sources if each.event.what == what]
    places = {each.place for each in ties if f".{name}".endswith("." + each.event.names[0].removeprefix("self."))}
    return places.pop() if len(places) == 1 else ""


def _were_one(one: TensorSummary, other: TensorSummary) -> bool:
    """Whether two parameters began with the same values, and steps have made them differ."""
    first, second = one.first, other.first
    if first is None or second is None or first.bits is None or first.bits != second.bits:
        return False
    return first.minimum != first.maximum and _have_parted(one, other)


def _have_parted(one: TensorSummary, other: TensorSummary) -> bool:
    """Whether steps have changed both parameters, to different values."""
    has_parted = one.last is not None and other.last is not None and one.last.bits != other.last.bits
    return has_parted and all(each.is_stepped and each.has_changed for each in (one, other))


CHECK: Final = Check("tied weights", "tied weights stay tied", _look, (APART,))
"""Applies if a model has an embedding, a parameter with several names, or two in the same memory."""
