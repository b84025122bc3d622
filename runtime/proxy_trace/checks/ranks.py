"""Checks that ranks that hold the same parameters still do at their last common step.

A parameter that several ranks have under one name, shape and placement, with the same values when training began, is a
replica. If replicas differ from some step on, and never agree again, the ranks diverge. Parameters that differ from the
start need not be replicas: separate runs under one launcher and models split by hand look the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.evidence import of
from proxy_trace.checks.finding import ERROR, NOTE
from proxy_trace.checks.rule import Rule
from proxy_trace.reading.folded_names import fold_names
from proxy_trace.terminal.units import format_number, format_ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.comparison.ranks import Comparison
    from proxy_trace.process.process_summary import ProcessEvidence
    from proxy_trace.states.differences import GroupedDifference

RANKS_PART: Final = Rule(
    "ranks-part",
    ERROR,
    "Parameters that diverge between ranks",
    "A parameter that had the same values in several ranks when training began differs between them from some step "
    "on, to the bit, and never agrees again. Sharded parameters, and parameters that differed from the start, are "
    "left out. If the learning rates differed at that step, they are the evidence, and the place is where a scheduler "
    "sets them, or else where the optimizer was created. This is a note if no wrapper keeps the ranks equal and they "
    "diverge at the first step: the weights may be averaged occasionally, outside PyTorch's optimizers.",
    "Check whether every rank trains through the `DistributedDataParallel` wrapper, with the same learning rate and "
    "the same number of steps, and whether `no_sync` or a branch on the rank lets one of them step alone. Average a "
    "metric over the ranks before a scheduler reads it.",
    "ranks {run}",
    "parameter",
)


_WRAPPERS: Final = frozenset({"DistributedDataParallel", "FullyShardedDataParallel"})
"""Types of modules that keep replicas equal."""

_UNSURE: Final = RANKS_PART._replace(severity=NOTE)
"""Without a wrapper, ranks that diverge at the first step may do so on purpose, as with occasional averaging."""


class _Cause(NamedTuple):
    """What made parameters differ: the evidence, and its place as "file:line"; both "" if it is unknown."""

    words: str = ""
    place: str = ""


def _look(evidence: Evidence) -> Sight | None:
    ranks = sorted(evidence.of_rank)
    if evidence.world_size == 1 and len(ranks) == 1:
        return None
    if len(ranks) == 1:
        return Sight((), [f"only rank {ranks[0]} of {evidence.world_size:,} was read"], has_looked=False)
    if evidence.is_quiet:
        return Sight((), evidence.level_words, has_looked=False)
    compared = evidence.comparison
    if compared is None or not compared.parameters:
        return Sight((), [evidence.not_compared or "no parameter is in several ranks"], has_looked=False)
    if not compared.steps and not _came_equally_far(evidence, compared):
        return Sight((), ["the ranks have no step in common"], has_looked=False)
    is_wrapped = any(module.type in _WRAPPERS for module in evidence.modules)
    found = _findings(evidence, compared, ranks, is_wrapped=is_wrapped)
    apart = len(compared.never_agreed)
    return Sight(found, _unseen(evidence, compared), has_looked=apart < compared.parameters)


def _came_equally_far(evidence: Evidence, compared: Comparison) -> bool:
    """Whether ranks without optimizer steps can be compared at their ends."""
    files = {each.file for each in compared.ranks}
    ends = {(process.end, process.end_step) for process in evidence.processes if process.file in files}
    return len(ends) == 1 and all(end for end, _ in ends)


def _findings(evidence: Evidence, compared: Comparison, ranks: list[int], *, is_wrapped: bool) -> list[Finding]:
    names_by_reason: dict[tuple[str, int | None, bool, _Cause], list[str]] = {}
    files = {each.file for each in compared.ranks}
    processes = [each for each in evidence.of_processes if each.process.file in files]
    # If other parameters agree all the time, something keeps them equal.
    is_kept = is_wrapped or len(compared.drifted) + len(compared.never_agreed) < compared.parameters
    for difference in compared.drifted:
        if not difference.agrees_again:
            is_sure = is_kept or bool(difference.agreed) or not compared.steps
            reason, step = _reason(difference, compared)
            cause = _Cause() if step is None else _rates_apart(difference.name, step, processes)
            names_by_reason.setdefault((reason, step, is_sure, cause), []).append(difference.name)
    return [
        (RANKS_PART if is_sure else _UNSURE).finding(
            name, reason, ranks, count, step=step, place=cause.place, evidence=[cause.words] if cause.words else None
        )
        for (reason, step, is_sure, cause), names in names_by_reason.items()
        for name, count in fold_names(names, compared.compared_names)
    ]


def _rates_apart(name: str, step: int, processes: Sequence[ProcessEvidence]) -> _Cause:
    """The learning rates of a parameter at the step after which it first differed, if these differed too."""
    rates: dict[int, float] = {}
    origins: list[str] = []
    schedulers: set[str] = set()
    for of_process in processes:
        ids = {tensor.id for tensor in of_process.process.tensors if tensor.name == name}
        trained = [
            (number, optimizer, group)
            for number, optimizer in of_process.training.optimizers.items()
            for group in optimizer.groups
            if ids & set(group.tensors)
        ]
        if len(trained) != 1:
            return _Cause()
        (number, optimizer, group) = trained[0]
        rate = group.rate_at(step)
        if rate is None:
            return _Cause()
        rates[of_process.process.rank] = rate
        origins.append(optimizer.origin)
        schedulers |= _places_of_schedulers(number, of_process)
    if len(set(rates.values())) < 2:
        return _Cause()
    words = " | ".join(f"{format_number(rate)} in rank {rank}" for rank, rate in sorted(rates.items()))
    return _Cause(f"learning rate at that step: {words}", schedulers.pop() if len(schedulers) == 1 else origins[0])


def _places_of_schedulers(optimizer: int, of_process: ProcessEvidence) -> set[str]:
    """Where schedulers set the rates of an optimizer."""
    training = of_process.training
    plateaus = {each.place for each in training.plateaus.values() if each.last.optimizer_id == optimizer}
    return plateaus | {each.advances[-1][2] for each in training.schedulers_of(optimizer)}


def _reason(difference: GroupedDifference, compared: Comparison) -> tuple[str, int | None]:
    """The reason for a difference, and the step after which it was first seen."""
    groups = " | ".join(format_ranks(group) for group in difference.groups)
    if not compared.steps:
        return f"the same at the start, not at the end ({groups})", None
    before = "the same before" if difference.agreed else "the same at the start"
    return f"{before}, and different since then ({groups})", difference.first_step


def _unseen(evidence: Evidence, compared: Comparison) -> list[str]:
    apart, again = len(compared.never_agreed), sum(each.agrees_again for each in compared.drifted)
    total = compared.parameters
    unseen = [*evidence.level_words, *evidence.watching_words]
    if apart:
        unseen.append(f"{of(apart, total, 'parameter')} not known to have been the same at the start")
    if again:
        unseen.append(f"{of(again, total, 'parameter')} the same at some steps only")
    if compared.own_parts:
        own = "1 parameter" if compared.own_parts == 1 else f"{compared.own_parts:,} parameters"
        unseen.append(f"{own} sharded, or in one rank only")
    if compared.by_statistics:
        unseen.append(f"{of(compared.by_statistics, total, 'parameter')} compared by extremes and norm only")
    if compared.not_asked:
        unseen.append(f"{format_ranks(compared.not_asked)} left out")
    if compared.absent:
        unseen.append(f"no trace of {format_ranks(compared.absent)}")
    return unseen


CHECK: Final = Check("ranks", "ranks that started from the same values still agree", _look, (RANKS_PART,))
