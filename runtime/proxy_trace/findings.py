"""What looks wrong in a run: the reason why somebody reads a trace."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy_trace.process_summary import ModuleSummary, ProcessCollector, ProcessSummary, TensorSummary
    from proxy_trace.trace import DamagedFile

_KINDS: Final = ("never_updated", "never_called", "problem", "incomplete", "evaluated", "frozen")
NOTES: Final = frozenset({"evaluated", "frozen"})
"""The kinds of findings that are worth knowing rather than wrong."""

OF_PARAMETERS: Final = frozenset({"never_updated", *NOTES})
"""The kinds whose names are those of parameters."""

_FROZEN: Final = "frozen (requires_grad is False)"
_NOT_STEPPED: Final = "in no optimizer's step"
_NOT_TRAINED: Final = "it never had a gradient, and nothing changed it"
_EVALUATED: Final = {
    _NOT_STEPPED: f"{_NOT_STEPPED}; the model was called for evaluation only",
    _NOT_TRAINED: "it never had a gradient; the model was called for evaluation only",
}
_NO_STEP: Final = "no optimizer's step updated it"
_RECORDED_LEVELS: Final = frozenset({"INFO", "DEBUG"})
_UNCALLED: Final = frozenset(
    {"ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "NonDynamicallyQuantizableLinear"}
)
"""Types of torch's that nobody calls: containers, and what `nn.MultiheadAttention` keeps its last projection in."""


class Finding(msgspec.Struct):
    """One thing that looks wrong.

    Attributes:
        kind: "non_finite", "never_updated", "never_called", "problem" or "incomplete"; or "evaluated" or "frozen",
            which are worth knowing rather than wrong.
        name: the module, parameter or file; "prefix.*" stands for everything below a module.
        reason: why this is reported, the same words for all findings of one sort.
        ranks: the ranks it was found in.
        names: how many names `name` stands for.
        step: the optimizer steps that had ended when it happened, if it happened at a time.
        time_us: when it happened, likewise, since the start of the first process.
        place: where, as "file:line", if that is known.
        trail: what made a non-finite output, what made that, and so on, back to what other modules put out.
    """

    kind: str
    name: str
    reason: str
    ranks: list[int]
    names: int = 1
    step: int | None = None
    time_us: int | None = None
    place: str = ""
    trail: list[str] = []


def is_recorded(module: ModuleSummary) -> bool:
    """Whether the calls of a module and the updates of its parameters are recorded at all, at its level."""
    return module.level in _RECORDED_LEVELS


def collect_findings(collectors: Sequence[ProcessCollector], damaged: Sequence[DamagedFile]) -> list[Finding]:
    """All findings of a run, the same finding in several ranks as one, non-finite values by time."""
    non_finite: list[Finding] = []
    others: list[Finding] = []
    any_called = any(collector.process.module_calls for collector in collectors)
    first_us = min((collector.started_us for collector in collectors), default=0)
    of_rank: dict[int, list[ProcessSummary]] = {}
    for collector in collectors:
        of_rank.setdefault(collector.process.rank, []).append(collector.process)
    for collector in collectors:
        non_finite += _non_finite(collector, collector.started_us - first_us)
        others += _never_updated(collector)
        if collector.process.module_calls or not (any_called or collector.process.is_empty):
            others += _never_called(collector, of_rank[collector.process.rank])
        others += _problems(collector)
        others += _incomplete(collector)
    others += [Finding("incomplete", str(path), reason, []) for path, reason in damaged]
    non_finite.sort(key=lambda finding: finding.time_us or 0)
    others.sort(key=lambda finding: _KINDS.index(finding.kind))
    return non_finite + _merged(others)


def _non_finite(collector: ProcessCollector, offset_us: int) -> list[Finding]:
    names, rank = collector.names, collector.process.rank
    found = []
    for event, trail in zip(collector.non_finite, collector.trails, strict=True):
        module = names.modules.get(event.module)
        if event.where == "output":
            name = names.module_name(event.module)
            what = f"output{f' ({module.type})' if module else ''}"
        else:
            name, what = names.tensor_name(event.tensor), event.where
        size = f" of {event.type}" if event.type else ""
        reason = f"{what}: {event.count:,} non-finite element{'' if event.count == 1 else 's'}{size}"
        place = names.place(event.location)
        finding = Finding("non_finite", name, reason, [rank], 1, event.step, event.time_us + offset_us, place)
        finding.trail = trail
        found.append(finding)
    return found


def is_sampled(module: ModuleSummary) -> bool:
    """Whether some steps were not recorded, so that what the trace lacks may have happened all the same."""
    return module.every > 1


def _never_updated(collector: ProcessCollector) -> list[Finding]:
    """Parameters that training has not changed, in a process that has trained: with optimizers or by hand.

    Those aside that have been taken out of the model: a head that was replaced, a weight that is computed since.
    """
    process = collector.process
    if not collector.has_trained:
        return []
    unrecorded = {module.id for module in process.modules if not is_recorded(module)}
    sampled = {module.id for module in process.modules if is_sampled(module)}
    parameters = [tensor for tensor in process.tensors if not (tensor.is_buffer or tensor.is_empty or tensor.removed)]
    roots = _roots(process.modules)
    trained = {roots.get(tensor.module, 0) for tensor in parameters if _was_trained(tensor)}
    evaluated = _only_evaluated(collector, roots)
    names_by_reason: dict[str, list[str]] = {}
    for tensor in parameters:
        if tensor.changes and roots.get(tensor.module, 0) not in trained:
            continue  # A target network, an average: it is given the weights of another model, whenever that may be.
        if tensor.module not in unrecorded and tensor.watched:
            reason = _reason_not_updated(tensor, tensor.module in sampled, has_optimizer=bool(process.steps))
            if roots.get(tensor.module, 0) in evaluated:
                reason = _EVALUATED.get(reason, reason)
            if reason:
                names_by_reason.setdefault(reason, []).append(tensor.name)
    all_names = [tensor.name for tensor in parameters]
    kinds = {_FROZEN: "frozen", **dict.fromkeys(_EVALUATED.values(), "evaluated")}
    return [
        Finding(kinds.get(reason, "never_updated"), name, reason, [process.rank], count)
        for reason, names in names_by_reason.items()
        for name, count in fold_names(names, all_names)
    ]


def _was_trained(tensor: TensorSummary) -> bool:
    """Whether a parameter was in an optimizer's step, or had a gradient."""
    return bool(tensor.gradients) or not tensor.updates.keys().isdisjoint(("step", "unchanged"))


def _only_evaluated(collector: ProcessCollector, roots: dict[int, int]) -> set[int]:
    """The roots that were called, but in no stage that trained anything: as a checkpoint is that is tried out."""
    trained_stages = collector.trained_stages or collector.stages_with_gradients
    stages: dict[int, set[str]] = {}
    for module in collector.process.modules:
        stages.setdefault(roots[module.id], set()).update(module.stages)
    return {
        root for root, called_in in stages.items() if trained_stages and called_in and not called_in & trained_stages
    }


def _roots(modules: Iterable[ModuleSummary]) -> dict[int, int]:
    """The id of the module at the top of each module's tree."""
    parents = {module.id: module.parent for module in modules}
    roots = {}
    for id_ in parents:
        top = id_
        while parents.get(top):
            top = parents[top]
        roots[id_] = top
    return roots


def _reason_not_updated(tensor: TensorSummary, is_sampled: bool, *, has_optimizer: bool) -> str:
    """Why a parameter counts as never updated; "" if it was updated.

    That its values did not change is known even where steps were left out; why they did not, only of the others.
    """
    if tensor.has_changed:
        return ""
    if is_sampled and tensor.requires_grad:
        return "its values never changed; of its gradients and steps only a sample is recorded"
    if not tensor.requires_grad and not tensor.gradients:
        return _FROZEN
    was_stepped = "step" in tensor.updates or "unchanged" in tensor.updates
    if was_stepped and not tensor.gradients:
        return "in an optimizer, but it never had a gradient"
    if was_stepped:
        zero = "" if tensor.has_nonzero_gradient else "; its gradient was always zero"
        return f"in an optimizer, but its values never changed{zero}"
    if tensor.gradients:
        return f"had gradients, but {_NO_STEP if has_optimizer else 'nothing changed it'}"
    return _NOT_STEPPED if has_optimizer else _NOT_TRAINED


def fold_names(names: Iterable[str], all_names: Iterable[str]) -> list[tuple[str, int]]:
    """Put "prefix.*" for names that are all there is below a prefix.

    Args:
        names: dotted names, each among `all_names`.
        all_names: everything there is.

    Returns:
        The names in order with how many each stands for; a prefix stands for at least two.
    """
    names = list(names)
    there_are = Counter(prefix for name in all_names for prefix in _prefixes(name))
    given = Counter(prefix for name in names for prefix in _prefixes(name))
    folded: dict[str, int] = {}
    for name in names:
        for prefix in _prefixes(name):
            if given[prefix] == there_are[prefix] > 1:
                folded[f"{prefix}.*"] = given[prefix]
                break
        else:
            folded[name] = 1
    return list(folded.items())


def _prefixes(name: str) -> list[str]:
    """The dotted prefixes of a name, shortest first, itself left out."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def _never_called(collector: ProcessCollector, of_rank: Sequence[ProcessSummary]) -> list[Finding]:
    """The topmost modules of which neither they nor anything below them was called, in any process of their rank.

    Workers inherit models that another of them calls, or that only their parent shares out. What compiled code calls is
    not seen: below a compiled module nothing is looked for, and compiled functions may call what has been trained. Of a
    module whose calls go around the hooks, or that has such a one below it, nothing is said, only of what is below it.
    """
    process = collector.process
    children: dict[int, list[ModuleSummary]] = {}
    for module in process.modules:
        if not module.removed:
            children.setdefault(module.parent, []).append(module)
    unseen = [each for each in process.modules if not is_recorded(each) or is_sampled(each) or not each.calls_seen]
    above_unseen = _with_those_above({module.name for module in unseen}, process.modules)
    if not process.module_calls and process.calls_compiled_functions:
        return []
    if not process.module_calls:
        reason = "no module was ever called (perhaps its forward is called directly)"
        roots = [root for root in children.get(0, []) if root.id not in above_unseen]
        sizes = [_size(root, children) for root in roots]
        return [
            Finding("never_called", root.name, reason, [process.rank], size)
            for root, size in zip(roots, sizes, strict=True)
        ]
    calling = {module.name for each in of_rank for module in each.modules if module.calls}
    updated = {name for each in of_rank for name in _names_of_updated(each)}
    called = _with_those_above(calling, process.modules)
    trained = _with_those_above(updated, process.modules)
    found = []
    pending = list(reversed(children.get(0, [])))
    while pending:
        module = pending.pop()
        below = children.get(module.id, [])
        is_own = module.id in trained or not module.parent
        if module.is_compiled or (process.calls_compiled_functions and is_own and module.id not in called):
            continue  # What is called in compiled code is not seen.
        if module.id in called or module.id in above_unseen:
            pending.extend(reversed(below))
        elif below or module.type not in _UNCALLED:
            reason = "never called"
            if module.id in trained:
                reason = "never called, though its parameters were updated (another module uses them, or gives them)"
            size = _size(module, children)
            found.append(Finding("never_called", module.name, reason, [process.rank], size))
    return found


def _names_of_updated(process: ProcessSummary) -> set[str]:
    """The modules that have parameters of their own which training has changed."""
    updated = {tensor.module for tensor in process.tensors if tensor.has_changed and not tensor.is_buffer}
    return {module.name for module in process.modules if module.id in updated}


def _with_those_above(names: set[str], modules: Iterable[ModuleSummary]) -> set[int]:
    """The ids of the modules of some names, and of all that they are part of."""
    modules = list(modules)
    parents = {module.id: module.parent for module in modules}
    found: set[int] = set()
    for module in modules:
        id_ = module.id if module.name in names else 0
        while id_ and id_ not in found:
            found.add(id_)
            id_ = parents.get(id_, 0)
    return found


def _size(module: ModuleSummary, children: dict[int, list[ModuleSummary]]) -> int:
    """How many modules there are from this one down."""
    count = 0
    pending = [module]
    while pending:
        count += 1
        pending.extend(children.get(pending.pop().id, []))
    return count


def _problems(collector: ProcessCollector) -> list[Finding]:
    found = []
    for problem in collector.problems.values():
        times = f" ({problem.count:,} times)" if problem.count > 1 else ""
        event = problem.event
        found.append(
            Finding(
                "problem",
                collector.names.module_name(event.module),
                " ".join(problem.message.split()) + times,
                [collector.process.rank],
                step=event.step,
                time_us=event.time_us,
                place=collector.names.place(event.location),
            )
        )
    return found


def _incomplete(collector: ProcessCollector) -> list[Finding]:
    process = collector.process
    reasons = []
    if process.is_cut:
        reasons.append("cut off within its last line: the process was killed, or is still running")
    if process.ends_inside:
        reasons.append(
            f"ends inside {process.ends_inside}: the process was killed or interrupted there, or is still running"
        )
    elif not process.end and not process.is_cut:
        reasons.append("has no end: the process was killed, or is still running")
    if process.malformed:
        lines = "1 malformed line" if process.malformed == 1 else f"{process.malformed:,} malformed lines"
        reasons.append(f"{lines} left out, the first is line {process.first_malformed_line:,}")
    if process.unknown:
        kinds = ", ".join(f"{kind} ({count:,})" for kind, count in sorted(process.unknown.items()))
        reasons.append(f"records of unknown kinds left out, perhaps of a newer version: {kinds}")
    return [Finding("incomplete", process.file, reason, [process.rank]) for reason in reasons]


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """The same finding in several ranks as one, at its first place."""
    merged: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        key = (finding.kind, finding.name, finding.reason)
        first = merged.get(key)
        if first is None:
            merged[key] = finding
        else:
            first.ranks = sorted({*first.ranks, *finding.ranks})
    return list(merged.values())
