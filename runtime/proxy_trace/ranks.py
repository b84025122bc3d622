"""Compares the ranks of a run: which parameters differ between processes that should hold the same, and since when.

What is compared are the statistics that a trace has of every parameter after every optimizer step: minimum and maximum,
which are elements and must be equal to the bit, the number of non-finite elements, and the L2 norm. A norm depends on
the order in which it is summed up, which depends on the machine and its threads, so norms count as equal up to a
relative 2**-20; a value that moves an element past the minimum or the maximum, or the norm by more than that, is seen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from proxy_trace.errors import NothingToCompareError, OneRankError
from proxy_trace.rank_reader import RankReader, read_together
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from proxy_trace.selection import StepRange
    from proxy_trace.trace import Trace, TraceFile

_NORM_TOLERANCE: Final = 2.0**-20


class Difference(msgspec.Struct):
    """Something that differs between ranks that should agree.

    Attributes:
        name: the parameter or buffer.
        kind: "parameter", "gradient" or "buffer".
        first_step: the first step after which it differed (for a gradient: in which).
        last_step: the last.
        steps: after how many steps it differed, of `compared`.
        compared: how many steps had it in all ranks.
        groups: the ranks at `first_step`, those that agreed together.
        values: the statistics at `first_step`, one for each group.
        agreed: after how many steps all ranks agreed before the first difference.
        gradient_step: for a parameter, the first step in which its gradient differed; None if that never did.
    """

    name: str
    kind: str
    first_step: int
    last_step: int
    steps: int
    compared: int
    groups: list[list[int]]
    values: list[events.Statistics | None]
    agreed: int
    gradient_step: int | None = None


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
        own_parts: how many were not, since each rank has its own part of them, or only one has them.
        drifted: parameters that agreed, and then differed.
        never_agreed: parameters that differed at each comparison.
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
    own_parts: int
    drifted: list[Difference]
    never_agreed: list[Difference]
    gradients: list[Difference]
    buffers: list[Difference]
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
    files, left_out = _file_of_each_rank(trace)
    if len(files) < 2:
        raise OneRankError(trace.path, files[0].run.rank)
    readers = [RankReader(file) for file in files]
    found = _Findings(is_chosen)
    missing = dict.fromkeys((reader.rank for reader in readers), 0)
    compared = 0
    for step, here, lacking in read_together(readers):
        for reader in lacking:
            missing[reader.rank] += 1
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
    world_size = max(file.run.world_size for file in files)
    ranks = [
        RankEnd(
            reader.rank,
            reader.file.run.pid,
            str(reader.file.path),
            reader.last_complete_step,
            missing[reader.rank],
            reader.end,
        )
        for reader in readers
    ]
    parameters = found.differences("parameter")
    gradients = {difference.name: difference for difference in found.differences("gradient")}
    for parameter in parameters:
        gradient = gradients.pop(parameter.name, None)
        parameter.gradient_step = gradient.first_step if gradient is not None else None
    return Comparison(
        path=str(trace.path),
        run=files[0].run.run,
        world_size=world_size,
        ranks=ranks,
        steps=compared,
        parameters=found.compared_count("parameter"),
        own_parts=own_parts,
        drifted=[difference for difference in parameters if difference.agreed],
        never_agreed=[difference for difference in parameters if not difference.agreed],
        gradients=list(gradients.values()),
        buffers=found.differences("buffer"),
        absent=sorted(set(range(world_size)) - {reader.rank for reader in readers}),
        left_out=[str(file.path) for file in left_out],
    )


def is_same(first: events.Statistics | None, second: events.Statistics | None) -> bool:
    """Whether two statistics can be those of the same values."""
    if first is None or second is None:
        return first is second
    if (first.minimum, first.maximum, first.nonfinite) != (second.minimum, second.maximum, second.nonfinite):
        return False
    one, other = first.norm, second.norm
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_NORM_TOLERANCE)
    return one == other


class _Findings:
    """Collects differences, and how often there was none."""

    def __init__(self, is_chosen: Callable[[str], bool] | None) -> None:
        self._is_chosen = is_chosen
        self._compared: dict[tuple[str, str], int] = {}
        self._differences: dict[tuple[str, str], Difference] = {}
        self._is_first = True

    def compare(self, step: int, readers: Sequence[RankReader]) -> None:
        """Compare what `readers` hold at the end of `step`; after the first time, only what has changed."""
        names = set().union(*(reader.values if self._is_first else reader.changed for reader in readers))
        self._is_first = False
        for name in sorted(names):
            for replicas in _replicas(name, [reader for reader in readers if name in reader.values]):
                kind = "buffer" if isinstance(replicas[0].tensors[name], events.Buffer) else "parameter"
                self._compare(kind, name, step, [(reader.rank, reader.values[name]) for reader in replicas])
        gradients = set().union(*(reader.gradients for reader in readers))
        for name in sorted(gradients):
            for replicas in _replicas(name, [reader for reader in readers if name in reader.gradients]):
                self._compare("gradient", name, step, [(reader.rank, reader.gradients[name]) for reader in replicas])

    def differences(self, kind: str) -> list[Difference]:
        """The differences of a kind, the earliest first."""
        found = [difference for (of, _), difference in self._differences.items() if of == kind]
        for difference in found:
            difference.compared = self._compared[kind, difference.name]
        return sorted(found, key=lambda difference: (difference.first_step, difference.name))

    def compared_count(self, kind: str) -> int:
        """How many names of a kind were compared."""
        return sum(of == kind for of, _ in self._compared)

    @property
    def has_compared_any(self) -> bool:
        """Whether anything was compared."""
        return bool(self._compared)

    def _compare(self, kind: str, name: str, step: int, held: list[tuple[int, events.Statistics | None]]) -> None:
        if self._is_chosen is not None and not self._is_chosen(name):
            return
        key = kind, name
        before = self._compared.get(key, 0)
        self._compared[key] = before + 1
        groups: list[tuple[events.Statistics | None, list[int]]] = []
        for rank, values in held:
            for other, ranks in groups:
                if is_same(values, other):
                    ranks.append(rank)
                    break
            else:
                groups.append((values, [rank]))
        if len(groups) == 1:
            return
        known = self._differences.get(key)
        if known is None:
            ranks_of_groups, values_of_groups = [ranks for _, ranks in groups], [values for values, _ in groups]
            known = self._differences[key] = Difference(
                name, kind, step, step, 0, 0, ranks_of_groups, values_of_groups, agreed=before
            )
        known.last_step = step
        known.steps += 1


def _replicas(name: str, readers: Iterable[RankReader]) -> list[list[RankReader]]:
    """Those of `readers` that should hold the same under `name`, several to a list."""
    found: dict[tuple[str, str], list[RankReader]] = {}
    for reader in readers:
        tensor = reader.tensors.get(name)
        if tensor is not None:
            found.setdefault((tensor.type, tensor.placements), []).append(reader)
    return [replicas for replicas in found.values() if len(replicas) > 1]


def _file_of_each_rank(trace: Trace) -> tuple[list[TraceFile], list[TraceFile]]:
    """The largest file of each rank, and the others."""
    largest: dict[int, TraceFile] = {}
    for file in trace.files:
        known = largest.get(file.run.rank)
        if known is None or file.size_bytes() > known.size_bytes():
            largest[file.run.rank] = file
    chosen = [largest[rank] for rank in sorted(largest)]
    return chosen, [file for file in trace.files if file not in chosen]


def _count_own_parts(readers: Sequence[RankReader], is_chosen: Callable[[str], bool] | None) -> int:
    """How many parameters no two ranks have in the same shape and place."""
    names = {
        name
        for reader in readers
        for name, tensor in reader.tensors.items()
        if isinstance(tensor, events.Parameter) and (is_chosen is None or is_chosen(name))
    }
    return sum(not _replicas(name, readers) for name in names)
