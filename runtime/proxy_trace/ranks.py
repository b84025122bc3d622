"""Compares the ranks of a run: which parameters differ between processes that should hold the same, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy_trace.differences import DifferenceCollector, GroupedDifference, replicas_of
from proxy_trace.errors import NothingToCompareError, OneRankError
from proxy_trace.same_values import are_same_values, has_bits
from proxy_trace.step_reader import StepReader, read_together
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_trace.selection import StepRange
    from proxy_trace.trace import Trace, TraceFile


class RankEnd(msgspec.Struct):
    """How far one rank came: `end` is "" if its process did not end in an orderly way, or still runs."""

    rank: int
    pid: int
    file: str
    last_step: int
    missing_steps: int = 0
    end: str = ""


class Comparison(msgspec.Struct):
    """What comparing the ranks of a run found.

    Attributes:
        parameters: how many parameters were compared: those that several ranks have in the same shape and place.
        compared_names: their names.
        by_statistics: how many of them had no fingerprints, so that only extremes and norms were compared.
        own_parts: how many were not, since each rank has its own part of them, or only one has them.
        drifted: parameters that agreed, at the start or later, and then differed.
        never_agreed: parameters that differed at each comparison, and are not known to have agreed at the start.
        gradients: gradients that differed where the parameters agreed.
        buffers: buffers that differed, as those of batch norm may.
        absent: ranks that left no file.
        left_out: files of further processes of a rank, of which the one with the longest trace is compared.
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
    absent: list[int]
    left_out: list[str]

    @property
    def agrees(self) -> bool:
        """Whether all parameters do."""
        return not self.drifted and not self.never_agreed


def compare_ranks(
    trace: Trace,
    steps: StepRange | None = None,
    is_chosen: Callable[[str], bool] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Read all ranks of `trace` side by side and compare what they should have in common.

    Memory grows with the model and the number of ranks, not with the run.

    Args:
        trace: the run.
        steps: compare after these steps only; None for all.
        is_chosen: which names to compare; None for all.
        on_progress: called now and then with the number of bytes read so far, over all files.

    Raises:
        OneRankError: if there is only one rank.
        NothingToCompareError: if the ranks have nothing in common that is chosen, and no parts of their own either.
        TraceError: if the file system refuses.
    """
    files, left_out = file_of_each_rank(trace)
    readers = [StepReader(file, file.run.rank) for file in files]
    return compare_readers(trace, readers, left_out, steps, is_chosen, on_progress)


def compare_readers(
    trace: Trace,
    readers: list[StepReader],
    left_out: Sequence[TraceFile],
    steps: StepRange | None = None,
    is_chosen: Callable[[str], bool] | None = None,
    on_progress: Callable[[int], None] | None = None,
    *,
    with_gradients: bool = True,
) -> Comparison:
    """Compare ranks as `compare_ranks` does, by readers of `trace` that have read nothing yet, one for each rank.

    What is raised because there is nothing to compare is raised when they have read all, except for a single rank.
    """
    if len(readers) < 2:
        raise OneRankError(trace.path, readers[0].number)
    found = DifferenceCollector(is_chosen, with_gradients=with_gradients)
    missing = dict.fromkeys((reader.number for reader in readers), 0)
    compared = 0
    for step, here, lacking in read_together(readers):
        for reader in lacking:
            missing[reader.number] += 1
            reader.forget_values()
        if on_progress is not None:
            on_progress(sum(reader.bytes_read for reader in readers))
        if len(here) < 2 or (steps is not None and step >= 0 and not steps.has(step)):
            continue
        found.compare(max(step, 0), here)
        compared += step >= 0
    own_parts = _count_own_parts(readers, is_chosen)
    if not (found.has_compared_any or own_parts):
        raise NothingToCompareError(trace.path)
    world_size = max(reader.file.run.world_size for reader in readers)
    parameters, gradients = _gradients_told_with_parameters(found)
    for difference in parameters:
        difference.same_start = _had_same_start(difference, readers)
    names = found.compared("parameter")
    return Comparison(
        path=str(trace.path),
        run=readers[0].file.run.run,
        world_size=world_size,
        ranks=[_end_of(reader, missing[reader.number]) for reader in readers],
        steps=compared,
        parameters=len(names),
        compared_names=names,
        by_statistics=sum(not _have_bits(name, readers) for name in names),
        own_parts=own_parts,
        drifted=[difference for difference in parameters if difference.agreed or difference.same_start],
        never_agreed=[difference for difference in parameters if not (difference.agreed or difference.same_start)],
        gradients=gradients,
        buffers=found.differences("buffer"),
        absent=sorted(set(range(world_size)) - {reader.number for reader in readers}),
        left_out=[str(file.path) for file in left_out],
    )


def _had_same_start(difference: GroupedDifference, readers: Sequence[StepReader]) -> bool | None:
    """Whether a parameter had the same values in all ranks that were compared when training began; None: not known."""
    compared = {number for group in difference.groups for number in group}
    starts = [reader.start.get(difference.name) for reader in readers if reader.number in compared]
    answers = {are_same_values(starts[0], start) for start in starts[1:]}
    return False if False in answers else None if None in answers else True


def _have_bits(name: str, readers: Sequence[StepReader]) -> bool:
    """Whether all ranks that have a parameter have a fingerprint of its values."""
    return all(has_bits(reader.values[name]) for reader in readers if name in reader.values)


def _end_of(reader: StepReader, missing_steps: int) -> RankEnd:
    file = reader.file
    return RankEnd(reader.number, file.run.pid, str(file.path), reader.last_complete_step, missing_steps, reader.end)


def _gradients_told_with_parameters(
    found: DifferenceCollector,
) -> tuple[list[GroupedDifference], list[GroupedDifference]]:
    """The parameters that differ, each with the step at which its gradient first did; and all other gradients."""
    parameters = found.differences("parameter")
    gradients = {difference.name: difference for difference in found.differences("gradient")}
    for parameter in parameters:
        gradient = gradients.pop(parameter.name, None)
        parameter.gradient_step = gradient.first_step if gradient is not None else None
    return parameters, list(gradients.values())


def file_of_each_rank(trace: Trace) -> tuple[list[TraceFile], list[TraceFile]]:
    """The largest file of each rank, by rank, and the others: those of further processes of a rank."""
    largest: dict[int, TraceFile] = {}
    for file in trace.files:
        known = largest.get(file.run.rank)
        if known is None or file.size_bytes() > known.size_bytes():
            largest[file.run.rank] = file
    chosen = [largest[rank] for rank in sorted(largest)]
    return chosen, [file for file in trace.files if file not in chosen]


def _count_own_parts(readers: Sequence[StepReader], is_chosen: Callable[[str], bool] | None) -> int:
    """How many parameters no two ranks have in the same shape and place."""
    names = {
        name
        for reader in readers
        for name, tensor in reader.tensors.items()
        if isinstance(tensor, events.Parameter) and (is_chosen is None or is_chosen(name))
    }
    return sum(not replicas_of(name, readers) for name in names)
