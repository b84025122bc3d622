"""Compares two runs of a script: up to which step they agree, and what differs first."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy_trace.comparison.compare_calls import OUTPUT, compare_calls
from proxy_trace.comparison.configuration import SettingDifference  # noqa: TC001  msgspec looks the types of fields up.
from proxy_trace.comparison.ranks import file_of_each_rank
from proxy_trace.errors import NothingInCommonError, SameRunError
from proxy_trace.reading.workers import Workers
from proxy_trace.states.differences import Difference, is_same
from proxy_trace.states.side_by_side import SideBySide
from proxy_trace.states.state_reader import NO_STEP, OPTIMIZER_STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_trace.comparison.compare_calls import CallComparison
    from proxy_trace.reading.report import Report
    from proxy_trace.reading.selection import StepRange
    from proxy_trace.reading.trace import Trace, TraceFile


class RunDifference(Difference):
    """A difference between two runs. `values` are those of the first run and the second.

    Besides the usual kinds, there are "start", the initial value of a parameter or buffer (with `first_step` -1), and
    "output", the output of the module `name`.

    Attributes:
        rank: the rank.
    """

    rank: int


class CallDifference(msgspec.Struct):
    """The number of calls of modules and torch functions in each run, in the steps compared.

    Attributes:
        rank: the rank.
        first_step: the first step in which the numbers differ.
        calls: the numbers of the first run and the second.
    """

    rank: int
    first_step: int
    calls: list[int]


class ComparedRun(msgspec.Struct):
    """One of the two runs: the command, and how far it came (`end` as in `RunEnd`, of its first rank)."""

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
    """The result of comparing two runs.

    Attributes:
        runs: the two runs.
        ranks: the ranks that both runs have.
        steps: the number of steps compared, in the rank with most of them.
        tensors: the number of parameters and buffers compared, in all ranks.
        configuration: the torch settings that differ.
        calls: the ranks in which the numbers of calls differ.
        by_statistics: the number of parameters and buffers without fingerprints in one of the traces, whose minimum,
            maximum and norm were compared; of the rank with most of them.
        differences: the differences, earliest first.
        only_in: for each run, the parameters and buffers that the other lacks.
        other_shape: those that both have, but with different shape, dtype or place.
        limits: what else was not compared, in words.
    """

    runs: list[ComparedRun]
    ranks: list[int]
    steps: int
    tensors: int
    configuration: list[SettingDifference]
    calls: list[CallDifference]
    by_statistics: int
    differences: list[RunDifference]
    only_in: list[list[str]]
    other_shape: list[str]
    limits: list[str]

    @property
    def agrees(self) -> bool:
        """Whether nothing differs, including names, shapes, calls and settings."""
        return not (self.differences or any(self.only_in) or self.other_shape or self.calls or self.configuration)


_ORDER = ("start", OUTPUT, "gradient", OPTIMIZER_STATE, "parameter", "buffer")
"""The order of kinds within a step: the initial values, what was computed, and what that changed."""

_BOTH: Final = 0b11


def compare_runs(
    first: Trace,
    second: Trace,
    steps: StepRange | None = None,
    is_chosen: Callable[[str], bool] | None = None,
    workers: Workers | None = None,
) -> RunComparison:
    """Read two runs side by side, step by step and rank by rank.

    Memory grows with the model and the number of differences, not with the length of the runs.

    Args:
        first: the first run.
        second: the second run.
        steps: compare only after these steps; None for all, and for the state before the first.
        is_chosen: which names to compare; None for all.
        workers: reads the files; if None, this process does.

    Raises:
        SameRunError: if both are the same run.
        NothingInCommonError: if they have no chosen parameter or buffer in common.
        TraceError: if a file cannot be read.
    """
    if {file.path.absolute() for file in first.files} & {file.path.absolute() for file in second.files}:
        raise SameRunError(first.path, second.path, first.files[0].run.run)
    files = [{file.run.rank: file for file in file_of_each_rank(trace)[0]} for trace in (first, second)]
    ranks = sorted(files[0].keys() & files[1].keys())
    pairs = [_Pair([of_run[rank] for of_run in files], rank, steps, is_chosen) for rank in ranks]
    compared = list((workers or Workers()).map(_compare_pair, pairs))
    tensors = sum(rank.tensors for rank in compared)
    only_in = [sorted({name for rank in compared for name in rank.only_in[number]}) for number in (0, 1)]
    other_shape = sorted({name for rank in compared for name in rank.other_shape})
    if not (tensors or other_shape):
        raise NothingInCommonError(first.path, second.path)
    differences = [difference for rank in compared for difference in rank.differences]
    differences.sort(key=lambda each: (each.first_step, _ORDER.index(each.kind), each.rank))
    return RunComparison(
        runs=[
            describe_run(
                trace, max((rank.ends[number].last_step for rank in compared), default=-1), compared[0].ends[number].how
            )
            for number, trace in enumerate((first, second))
        ],
        ranks=ranks,
        steps=max(rank.steps for rank in compared),
        tensors=tensors,
        configuration=_first_of_each_setting([found for rank in compared for found in rank.configuration]),
        calls=[rank.calls for rank in compared if rank.calls is not None],
        by_statistics=max(rank.by_statistics for rank in compared),
        differences=differences,
        only_in=only_in,
        other_shape=other_shape,
        limits=list(dict.fromkeys(limit for rank in compared for limit in rank.limits)),
    )


def _first_of_each_setting(found: Sequence[SettingDifference]) -> list[SettingDifference]:
    """The differences found in several ranks, each setting once."""
    by_name: dict[str, SettingDifference] = {}
    for each in sorted(found, key=lambda each: each.step):
        by_name.setdefault(each.name, each)
    return list(by_name.values())


class _Pair(NamedTuple):
    """One rank of both runs, and what to compare."""

    files: Sequence[TraceFile]
    rank: int
    steps: StepRange | None
    is_chosen: Callable[[str], bool] | None


class _End(NamedTuple):
    """How far a process came, and how it ended."""

    last_step: int
    how: str


class _ComparedRank(NamedTuple):
    """The result of comparing one rank of both runs; `only_in` and `ends` are those of the two."""

    tensors: int
    steps: int
    configuration: list[SettingDifference]
    calls: CallDifference | None
    by_statistics: int
    differences: list[RunDifference]
    only_in: list[list[str]]
    other_shape: list[str]
    limits: list[str]
    ends: list[_End]


def _compare_pair(pair: _Pair, report: Report) -> _ComparedRank:
    return _PairReader(pair).compare(report)


class _PairReader:
    """Reads one rank of both runs."""

    def __init__(self, pair: _Pair) -> None:
        wanted = pair.steps
        self._pair = pair
        self._read = SideBySide(
            pair.files, (0, 1), lambda step: wanted is None or (step != NO_STEP and wanted.has(step)), pair.is_chosen
        )

    def compare(self, report: Report) -> _ComparedRank:
        """Read both traces to the end, and return what differs."""
        read, pair = self._read, self._pair
        read.read(Workers(report=report))
        found = read.found
        wanted = pair.steps
        calls = compare_calls(pair.files, lambda step: wanted is None or wanted.has(step), pair.is_chosen, report)
        of_state = self._differences()
        known = {each.name for each in of_state if each.kind != "gradient"}
        behind = [each for each in calls.changes if each.name not in known]
        compared = {*found.compared("parameter"), *found.compared("buffer"), *self._alike()}
        has_more = calls.first_step is not None and not calls.is_partial
        return _ComparedRank(
            len(compared),
            read.steps,
            calls.configuration,
            CallDifference(pair.rank, calls.first_step or 0, calls.calls) if has_more else None,
            sum(not read.has_bits(name) for name in compared),
            [*of_state, *map(self._of_steps, [*calls.outputs, *behind])],
            [self._only_in(number) for number in (0, 1)],
            [name for name in read.last_held if self._members(name) == _BOTH and not read.is_shared(name)],
            _limits(calls),
            [_End(standing.last_complete, standing.end) for standing in read.standings],
        )

    def _members(self, name: str) -> int:
        return reduce(or_, self._read.parts(name).values(), 0)

    def _only_in(self, number: int) -> list[str]:
        """What one run has and the other lacks, without optimizer state, which is recorded only on request."""
        return [
            name
            for name in self._read.last_held
            if self._members(name) == 1 << number
            and not any(part.kind == OPTIMIZER_STATE for part in self._read.parts(name))
        ]

    def _differences(self) -> list[RunDifference]:
        """The differences. If a tensor differs at the start, only that and its gradients are reported."""
        at_start = {name: self._at_start(name) for name in self._alike()}
        found = [difference for difference in at_start.values() if difference is not None]
        for kind in _ORDER[1:]:
            found += [
                self._of_steps(difference)
                for difference in self._read.found.differences(kind)
                if kind == "gradient" or at_start.get(difference.name) is None
            ]
        return found

    def _alike(self) -> list[str]:
        """The names of what both runs had initially, in the same shape, if the initial state is compared."""
        if self._pair.steps is not None:
            return []
        read = self._read
        return sorted(name for name in read.last_held if len(read.start(name)) == 2 and read.is_shared(name))

    def _at_start(self, name: str) -> RunDifference | None:
        of_runs = self._read.start(name)
        values = [of_runs[number] for number in (0, 1)]
        if is_same(*values):
            return None
        return RunDifference(name, "start", -1, -1, 0, 0, values, self._pair.rank)

    def _of_steps(self, found: Difference) -> RunDifference:
        shared = {field: getattr(found, field) for field in Difference.__struct_fields__}
        return RunDifference(**shared, rank=self._pair.rank)


def _limits(calls: CallComparison) -> list[str]:
    """What is not compared because only one of two processes recorded it."""
    limits = ["the number of calls: the runs did not record the same"] if calls.is_partial else []
    if any(calls.have_outputs) and not all(calls.have_outputs):
        limits.append("values of outputs: only one run recorded them (statistics=)")
    return limits


def describe_run(trace: Trace, last_step: int, end: str) -> ComparedRun:
    """The command, and how far the run came."""
    run = trace.files[0].run
    return ComparedRun(
        path=str(trace.path),
        run=run.run,
        script=run.script,
        argv=run.argv,
        python=run.python,
        torch=run.torch,
        ranks=trace.ranks(),
        last_step=last_step,
        end=end,
    )
