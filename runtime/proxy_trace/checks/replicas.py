"""Checks that ranks of one model begin with the same weights, see different data, and make as many steps.

Exact values show which ranks train one model. If gradients are equal in two ranks, to the bit, although the weights
are not, they have been averaged. If weights are equal at the end although the data differed, so have they.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.ranks import RANKS_PART
from proxy_trace.checks.rule import Rule
from proxy_trace.reading.folded_names import fold_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ProcessEvidence, TensorSummary
    from proxy_trace.process.training_summary import OptimizerSummary
    from proxy_wrapper.events import Statistics

UNEQUAL_STEPS: Final = Rule(
    "unequal-steps",
    WARNING,
    "Ranks with unequal numbers of steps",
    "All ranks ended normally, and all parameters that an optimizer changed are equal at the end, or were last set to "
    "equal values between two steps: they are averaged, or sent from rank to rank. One rank made at least a tenth, "
    "and at least two, more steps than another: its data has more weight, or the steps of one round no longer belong "
    "together.",
    "Give each rank the same number of batches (`drop_last`, a `DistributedSampler`), or weight the average by the "
    "number of steps.",
    "show {run} --kind optimizer_step",
    sources=("https://github.com/BAAI-DCAI/SegVol/issues/21",),
)
EQUAL_STREAMS: Final = Rule(
    "equal-rank-streams",
    WARNING,
    "Ranks that receive the same data",
    "The model of a `DistributedDataParallel` received the same values in all ranks, to the bit, in each of the first "
    "calls whose values are recorded (at least two): all ranks compute the same gradient.",
    "Seed each rank differently after creating the model (`torch.manual_seed(seed + rank)`); give each rank its "
    "own part of the data with a `DistributedSampler`.",
    "show {run} --kind input",
    sources=("https://github.com/facebookresearch/detr/issues/297",),
)

_WRAPPER: Final = "DistributedDataParallel"
_FEWEST_INPUTS: Final = 2


def _look(evidence: Evidence) -> Sight | None:
    ranks = _longest_of_ranks(evidence)
    if len(ranks) < 2:
        return None
    if evidence.is_quiet:
        return Sight((), evidence.level_words, has_looked=False)
    findings = [*_begun_apart(ranks), *_stepped_unequally(ranks), *_given_the_same(ranks)]
    return Sight(findings, [*evidence.sampling_words, *evidence.watching_words])


def _longest_of_ranks(evidence: Evidence) -> list[ProcessEvidence]:
    """The process of each rank that made the most steps."""
    found: dict[int, ProcessEvidence] = {}
    for each in evidence.of_processes:
        known = found.get(each.process.rank)
        if known is None or known.process.steps < each.process.steps:
            found[each.process.rank] = each
    return [found[rank] for rank in sorted(found)]


def _begun_apart(ranks: Sequence[ProcessEvidence]) -> list[Finding]:
    """The parameters whose gradients are averaged although their values were never equal."""
    shared = [each for each in _shared(ranks) if each[0].is_stepped and each[0].has_changed]
    averaged = [each for each in shared if _are_same(each, lambda tensor: tensor.last_gradient)]
    if not averaged or len(averaged) < len(shared) or len({each.process.steps for each in ranks}) > 1:
        return []
    apart = [
        each
        for each in averaged
        if _differ(each, lambda tensor: tensor.first) and _differ(each, lambda tensor: tensor.last)
    ]
    optimizer = _stepping(ranks[0])
    reason = "its gradients are the same in all ranks, but its initial values were not"
    numbers = [] if optimizer is None else [f"after {optimizer.steps:,} steps"]
    names = [each[0].name for each in apart]
    return [
        RANKS_PART.finding(
            name,
            reason,
            [each.process.rank for each in ranks],
            count,
            place="" if optimizer is None else optimizer.place,
            evidence=numbers,
        )
        for name, count in fold_names(names, [each.name for each in ranks[0].process.tensors if not each.is_buffer])
    ]


def _stepped_unequally(ranks: Sequence[ProcessEvidence]) -> list[Finding]:
    """The finding if ranks that end with the same weights have made different numbers of steps."""
    steps = [each.process.steps for each in ranks]
    has_ended = all(each.process.end == "exit" for each in ranks)
    if not has_ended or max(steps) - min(steps) < 2 or max(steps) * 10 < min(steps) * 11 or not min(steps):
        return []
    trained = [each for each in _shared(ranks) if each[0].is_stepped and each[0].has_changed]
    if not trained or not all(_are_shared(each) for each in trained):
        return []
    optimizer = _stepping(ranks[0])
    numbers = [f"{count:,} steps in rank {each.process.rank}" for each, count in zip(ranks, steps, strict=True)][:4]
    name, place = ("steps", "") if optimizer is None else (optimizer.name, optimizer.place)
    reason = "it made different numbers of steps in ranks that share their weights"
    numbers_of_ranks = [each.process.rank for each in ranks]
    return [UNEQUAL_STEPS.finding(name, reason, numbers_of_ranks, place=place, evidence=numbers)]


def _are_shared(tensors: Sequence[TensorSummary]) -> bool:
    """Whether a parameter has the same values in all ranks: at the end, or when it was last set between steps."""
    return _are_same(tensors, lambda tensor: tensor.last) or _are_same(tensors, lambda tensor: tensor.last_between)


def _given_the_same(ranks: Sequence[ProcessEvidence]) -> list[Finding]:
    """The finding if all ranks of a wrapped model receive the same data."""
    if not all(any(each.type == _WRAPPER and each.calls for each in one.process.modules) for one in ranks):
        return []
    given = [[(each.type, each.statistics) for each in one.training.inputs] for one in ranks]
    count = min(map(len, given))
    if count < _FEWEST_INPUTS or not all(_is_same_data([one[index] for one in given]) for index in range(count)):
        return []
    first = ranks[0].training.inputs[0]
    names = {module.id: module.name for module in ranks[0].process.modules}
    reason = "it received the same values in all ranks"
    numbers = [f"in the first {count:,} recorded calls"]
    numbers_of_ranks = [each.process.rank for each in ranks]
    name = names.get(first.root, "")
    return [EQUAL_STREAMS.finding(name, reason, numbers_of_ranks, place=first.place, evidence=numbers)]


def _is_same_data(given: Sequence[tuple[str, Statistics]]) -> bool:
    """Whether several tensors have the same values, which are not all one number."""
    bits = {(type_, statistics.bits) for type_, statistics in given}
    first = given[0][1]
    return len(bits) == 1 and first.bits is not None and first.minimum != first.maximum


def _shared(ranks: Sequence[ProcessEvidence]) -> list[list[TensorSummary]]:
    """The parameters that all ranks have in the same shape; each as a list in rank order."""
    of_ranks = [
        {(each.name, each.type): each for each in one.process.tensors if not (each.is_buffer or each.removed)}
        for one in ranks
    ]
    return [
        [of_rank[key] for of_rank in of_ranks] for key in of_ranks[0] if all(key in of_rank for of_rank in of_ranks)
    ]


def _bits(tensors: Sequence[TensorSummary], of: Callable[[TensorSummary], Statistics | None]) -> list[str | None]:
    known = [of(tensor) for tensor in tensors]
    return [None if each is None else each.bits for each in known]


def _are_same(tensors: Sequence[TensorSummary], of: Callable[[TensorSummary], Statistics | None]) -> bool:
    bits = _bits(tensors, of)
    return len(set(bits)) == 1 and bits[0] is not None


def _differ(tensors: Sequence[TensorSummary], of: Callable[[TensorSummary], Statistics | None]) -> bool:
    bits = _bits(tensors, of)
    return None not in bits and len(set(bits)) > 1


def _stepping(of_process: ProcessEvidence) -> OptimizerSummary | None:
    """The optimizer of a process that made the most steps."""
    stepped = [each for each in of_process.training.optimizers.values() if each.steps]
    return max(stepped, key=lambda each: each.steps, default=None)


CHECK: Final = Check(
    "replicas",
    "ranks that train together started out equal, and see different data",
    _look,
    (RANKS_PART, UNEQUAL_STEPS, EQUAL_STREAMS),
)
"""Applies if a run has several ranks."""
