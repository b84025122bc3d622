"""Compares the ranks of a run: which parameters differ between processes that should agree, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy_trace.errors import NothingToCompareError, OneRankError
from proxy_trace.reading.workers import Workers
from proxy_trace.states.differences import GroupedDifference  # noqa: TC001  msgspec looks the types of fields up.
from proxy_trace.states.side_by_side import SideBySide
from proxy_trace.states.state_reader import NO_STEP
from proxy_trace.tensors.same_values import are_same_values
from proxy_wrapper.limits import Ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from proxy_trace.reading.selection import StepRange
    from proxy_trace.reading.trace import Trace, TraceFile
    from proxy_trace.states.member_differences import MemberDifferences


class RankEnd(msgspec.Struct):
    """How far a rank came. `end` is "" if its process did not end normally, or is still running."""

    rank: int
    pid: int
    file: str
    last_step: int
    missing_steps: int = 0
    end: str = ""


class Comparison(msgspec.Struct):
    """The result of comparing the ranks of a run.

    Attributes:
        parameters: the number of parameters compared: those that several ranks have, in the same shape and place.
        compared_names: their names.
        by_statistics: how many of them had no fingerprints, so that only minimum, maximum and norm were compared.
        own_parts: how many were not compared, because each rank has its own part, or only one rank has them.
        drifted: parameters that agreed, at the start or later, and then differed.
        never_agreed: parameters that differed in every comparison, and are not known to have agreed at the start.
        gradients: gradients that differed where the parameters agreed.
        buffers: buffers that differed, as those of batch norm may.
        not_asked: ranks without a file because `--ranks` left them out.
        absent: other ranks without a file.
        left_out: files of further processes of a rank. Only the one with the longest trace is compared.
    """

    path: str
    run: str
    world_size: int
    ranks: list[RankEnd]
    steps: int
    parameters: int
    compared_names: list[str]
    by_statistics: int
    own_parts: int
    drifted: list[GroupedDifference]
    never_agreed: list[GroupedDifference]
    gradients: list[GroupedDifference]
    buffers: list[GroupedDifference]
    not_asked: list[int]
    absent: list[int]
    left_out: list[str]

    @property
    def agrees(self) -> bool:
        """Whether all parameters agree."""
        return not self.drifted and not self.never_agreed


def compare_ranks(
    trace: Trace,
    steps: StepRange | None = None,
    is_chosen: Callable[[str], bool] | None = None,
    workers: Workers | None = None,
    *,
    with_gradients: bool = True,
    digests: Mapping[str, bytes] | None = None,
) -> Comparison:
    """Read all ranks of `trace` side by side, once, and compare what they should share.

    Memory grows with the model and the number of differences, not with the number of ranks or the length of the run.

    Args:
        trace: the run.
        steps: compare only after these steps; None for all.
        is_chosen: which names to compare; None for all.
        workers: reads the files; if None, this process does.
        with_gradients: whether to compare gradients as well.
        digests: the `StateDigest` of each file by its path, if known. Of files with equal digests, only one is read.
            Gradients cannot be compared then.

    Raises:
        OneRankError: if there is only one rank.
        NothingToCompareError: if the ranks have no chosen parameter in common, and no parts of their own.
        TraceError: if a file cannot be read.
    """
    files, left_out = file_of_each_rank(trace)
    ranks = [file.run.rank for file in files]
    if len(files) < 2:
        raise OneRankError(trace.path, ranks[0])

    def is_wanted(step: int) -> bool:
        return steps is None or step == NO_STEP or steps.has(step)

    known = None if digests is None else [digests[str(file.path)] for file in files]
    read = SideBySide(files, ranks, is_wanted, is_chosen, with_gradients=with_gradients, digests=known)
    read.read(workers or Workers())
    own_parts = _count_own_parts(read)
    if not (read.found.has_compared_any or own_parts):
        raise NothingToCompareError(trace.path)
    world_size = max(file.run.world_size for file in files)
    missing, asked = set(range(world_size)) - set(ranks), _asked_ranks(files, world_size)
    parameters, gradients = _gradients_told_with_parameters(read.found)
    for difference in parameters:
        difference.same_start = _had_same_start(difference, ranks, read)
    names = read.found.compared("parameter")
    return Comparison(
        path=str(trace.path),
        run=files[0].run.run,
        world_size=world_size,
        ranks=[
            RankEnd(file.run.rank, file.run.pid, str(file.path), standing.last_complete, missing, standing.end)
            for file, standing, missing in zip(files, read.standings, read.missing, strict=True)
        ],
        steps=read.steps,
        parameters=len(names),
        compared_names=names,
        by_statistics=sum(not read.has_bits(name) for name in names),
        own_parts=own_parts,
        drifted=[difference for difference in parameters if difference.agreed or difference.same_start],
        never_agreed=[difference for difference in parameters if not (difference.agreed or difference.same_start)],
        gradients=gradients,
        buffers=read.found.differences("buffer"),
        not_asked=sorted(missing - asked),
        absent=sorted(missing & asked),
        left_out=[str(file.path) for file in left_out],
    )


def _asked_ranks(files: Sequence[TraceFile], world_size: int) -> set[int]:
    """The ranks that were to write a trace, according to the files."""
    chosen = [Ranks.parse(file.run.ranks).below(world_size) for file in files if file.run.ranks]
    return set().union(*chosen) if chosen else set(range(world_size))


def _had_same_start(difference: GroupedDifference, ranks: Sequence[int], read: SideBySide) -> bool | None:
    """Whether all compared ranks had the same values of a parameter when training began; None if unknown."""
    compared = {number for group in difference.groups for number in group}
    of_processes = read.start(difference.name)
    starts = [of_processes.get(index) for index, rank in enumerate(ranks) if rank in compared]
    answers = {are_same_values(starts[0], start) for start in starts[1:]}
    return False if False in answers else None if None in answers else True


def _gradients_told_with_parameters(
    found: MemberDifferences,
) -> tuple[list[GroupedDifference], list[GroupedDifference]]:
    """The parameters that differ, each with the step at which its gradient first did, and the remaining gradients."""
    parameters = found.differences("parameter")
    gradients = {difference.name: difference for difference in found.differences("gradient")}
    for parameter in parameters:
        gradient = gradients.pop(parameter.name, None)
        parameter.gradient_step = gradient.first_step if gradient is not None else None
    return parameters, list(gradients.values())


def file_of_each_rank(trace: Trace) -> tuple[list[TraceFile], list[TraceFile]]:
    """The largest file of each rank, by rank, and the files of further processes of a rank."""
    largest: dict[int, TraceFile] = {}
    for file in trace.files:
        known = largest.get(file.run.rank)
        if known is None or file.size_bytes() > known.size_bytes():
            largest[file.run.rank] = file
    chosen = [largest[rank] for rank in sorted(largest)]
    return chosen, [file for file in trace.files if file not in chosen]


def _count_own_parts(read: SideBySide) -> int:
    """The number of parameters that no two ranks have in the same shape and place."""
    return sum(
        any(part.kind == "parameter" for part in read.parts(name)) and not read.is_shared(name)
        for name in read.last_held
    )
