"""Compares two runs of a script: up to which step they are the same, and what differs first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from proxy_trace.differences import Difference, DifferenceCollector, is_same, replicas_of
from proxy_trace.errors import NothingInCommonError, SameRunError
from proxy_trace.ranks import file_of_each_rank
from proxy_trace.step_reader import StepReader, read_together
from proxy_trace.workers import Workers
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_trace.selection import StepRange
    from proxy_trace.trace import Trace, TraceFile
    from proxy_trace.workers import Report


class RunDifference(Difference):
    """A difference between two runs: `values` are those of the first run and of the second.

    Besides the kinds of differences that every comparison has there is "start": what a parameter or buffer was when
    training began. Its `first_step` is -1.

    Attributes:
        rank: in which rank.
    """

    rank: int


class ComparedRun(msgspec.Struct):
    """One of the two runs: what was run, and how far it came (`end` as in `RunEnd`, of its first rank)."""

    path: str
    run: str
    script: str
    argv: list[str]
    python: str
    torch: str
    ranks: list[int]
    last_step: int
    end: str


class RunComparison(msgspec.Struct):
    """What comparing two runs found.

    Attributes:
        runs: the two.
        ranks: the ranks that both have.
        steps: after how many steps they were compared, in the rank that had most.
        tensors: how many parameters and buffers were compared, of all ranks.
        differences: what differs, the earliest first.
        only_in: for each of the two, the parameters and buffers that the other lacks.
        other_shape: those that both have, but not in the same shape, dtype or place.
    """

    runs: list[ComparedRun]
    ranks: list[int]
    steps: int
    tensors: int
    differences: list[RunDifference]
    only_in: list[list[str]]
    other_shape: list[str]

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return not (self.differences or any(self.only_in) or self.other_shape)


_ORDER = ("start", "gradient", "optimizer state", "parameter", "buffer")
"""What comes first within a step: what was there, what was made of it, what that changed."""


def compare_runs(
    first: Trace,
    second: Trace,
    steps: StepRange | None = None,
    is_chosen: Callable[[str], bool] | None = None,
    on_progress: Callable[[int], None] | None = None,
    jobs: int = 1,
) -> RunComparison:
    """Read two runs side by side, step for step and rank for rank.

    Memory grows with the model and with what differs, not with the runs.

    Args:
        first: a run.
        second: the one to compare it with.
        steps: compare after these steps only; None for all, and for what there was before the first.
        is_chosen: which names to compare; None for all.
        on_progress: called now and then with the number of bytes read so far, over all files.
        jobs: how many ranks are read at a time, each in a process of its own if there are several.

    Raises:
        SameRunError: if the two are one.
        NothingInCommonError: if they have no parameter and no buffer in common that is chosen.
        TraceError: if the file system refuses.
    """
    if {file.path.absolute() for file in first.files} & {file.path.absolute() for file in second.files}:
        raise SameRunError(first.path, second.path, first.files[0].run.run)
    files = [{file.run.rank: file for file in file_of_each_rank(trace)[0]} for trace in (first, second)]
    ranks = sorted(files[0].keys() & files[1].keys())
    pairs = [_Pair([of_run[rank] for of_run in files], rank, steps, is_chosen) for rank in ranks]
    with Workers(jobs, on_progress) as workers:
        compared = list(workers.map(_compare_pair, pairs))
    tensors = sum(rank.tensors for rank in compared)
    only_in = [sorted({name for rank in compared for name in rank.only_in[number]}) for number in (0, 1)]
    other_shape = sorted({name for rank in compared for name in rank.other_shape})
    if not (tensors or other_shape):
        raise NothingInCommonError(first.path, second.path)
    differences = [difference for rank in compared for difference in rank.differences]
    differences.sort(key=lambda each: (each.first_step, _ORDER.index(each.kind), each.rank))
    return RunComparison(
        runs=[
            _describe(trace, [rank.ends[number] for rank in compared]) for number, trace in enumerate((first, second))
        ],
        ranks=ranks,
        steps=max(rank.steps for rank in compared),
        tensors=tensors,
        differences=differences,
        only_in=only_in,
        other_shape=other_shape,
    )


class _Pair(NamedTuple):
    """One rank of both runs, and what of it is to be compared."""

    files: Sequence[TraceFile]
    rank: int
    steps: StepRange | None
    is_chosen: Callable[[str], bool] | None


class _End(NamedTuple):
    """How far a process came, and how it ended."""

    last_step: int
    how: str


class _ComparedRank(NamedTuple):
    """What comparing one rank of both runs found; `only_in` and `ends` are those of the two."""

    tensors: int
    steps: int
    differences: list[RunDifference]
    only_in: list[list[str]]
    other_shape: list[str]
    ends: list[_End]


def _compare_pair(pair: _Pair, report: Report) -> _ComparedRank:
    reader = _PairReader(pair)
    reader.read(report)
    return _ComparedRank(
        reader.tensors,
        reader.steps,
        reader.differences(),
        [reader.only_in(number) for number in (0, 1)],
        reader.other_shape(),
        [_End(each.last_complete_step, each.end) for each in reader.readers],
    )


class _PairReader:
    """Reads one rank of both runs."""

    def __init__(self, pair: _Pair) -> None:
        self.readers = [StepReader(file, number) for number, file in enumerate(pair.files)]
        self.steps = 0
        self._rank = pair.rank
        self._wanted_steps = pair.steps
        self._is_chosen = pair.is_chosen or (lambda _: True)
        self._found = DifferenceCollector(pair.is_chosen)

    @property
    def tensors(self) -> int:
        """How many parameters and buffers were compared."""
        return len({*self._found.compared("parameter"), *self._found.compared("buffer"), *self._alike()})

    def read(self, report: Report) -> None:
        """Read both traces to their end."""
        wanted = self._wanted_steps
        reported = 0
        for step, here, lacking in read_together(self.readers):
            for reader in lacking:
                reader.forget_values()
            bytes_read = sum(reader.bytes_read for reader in self.readers)
            report(bytes_read - reported)
            reported = bytes_read
            if len(here) == 2 and (wanted is None or (step >= 0 and wanted.has(step))):
                self._found.compare(max(step, 0), here)
                self.steps += step >= 0

    def only_in(self, number: int) -> list[str]:
        """What one of the runs has and the other lacks; not optimizer state, which is recorded only if asked for."""
        mine, others = self.readers[number].tensors, self.readers[1 - number].tensors
        return [
            name
            for name, tensor in mine.items()
            if name not in others and not isinstance(tensor, events.OptimizerState) and self._is_chosen(name)
        ]

    def other_shape(self) -> list[str]:
        """What both have, but not alike."""
        mine, others = (reader.tensors for reader in self.readers)
        return [
            name for name in mine if name in others and self._is_chosen(name) and not replicas_of(name, self.readers)
        ]

    def differences(self) -> list[RunDifference]:
        """What differs; of a tensor that did at the start, that alone and its gradients."""
        at_start = {name: self._at_start(name) for name in self._alike()}
        found = [difference for difference in at_start.values() if difference is not None]
        for kind in _ORDER[1:]:
            found += [
                self._of_steps(difference)
                for difference in self._found.differences(kind)
                if kind == "gradient" or at_start.get(difference.name) is None
            ]
        return found

    def _alike(self) -> list[str]:
        """What both had when training began, in the same shape, if that is compared at all."""
        if self._wanted_steps is not None:
            return []
        first, second = (reader.start for reader in self.readers)
        return [name for name in first if name in second and self._is_chosen(name) and replicas_of(name, self.readers)]

    def _at_start(self, name: str) -> RunDifference | None:
        values = [reader.start[name] for reader in self.readers]
        if is_same(*values):
            return None
        return RunDifference(name, "start", -1, -1, 0, 0, values, self._rank)

    def _of_steps(self, found: Difference) -> RunDifference:
        shared = {field: getattr(found, field) for field in Difference.__struct_fields__}
        return RunDifference(**shared, rank=self._rank)


def _describe(trace: Trace, ends: Sequence[_End]) -> ComparedRun:
    run = trace.files[0].run
    return ComparedRun(
        path=str(trace.path),
        run=run.run,
        script=run.script,
        argv=run.argv,
        python=run.python,
        torch=run.torch,
        ranks=trace.ranks(),
        last_step=max((end.last_step for end in ends), default=-1),
        end=ends[0].how if ends else "",
    )
