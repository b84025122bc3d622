"""Compares what a run did, apart from values, with a good run of the same script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from proxy_trace.comparison.against import facts
from proxy_trace.comparison.against.deviations import Deviation, find_deviations
from proxy_trace.comparison.against.fact_collector import collect_facts
from proxy_trace.comparison.ranks import file_of_each_rank
from proxy_trace.comparison.records.correspondence import find_correspondence
from proxy_trace.comparison.records.recorded import Recorded
from proxy_trace.comparison.records.scan import scan
from proxy_trace.errors import NothingAlikeError, SameRunError
from proxy_trace.reading.workers import Workers
from proxy_trace.terminal.units import format_count, format_ranks
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_trace.reading.report import Report
    from proxy_trace.reading.selection import Period
    from proxy_trace.reading.trace import Trace, TraceFile


class OfRank(NamedTuple):
    """A deviation, and the rank in which it was found."""

    deviation: Deviation
    rank: int


class GoodRunComparison(msgspec.Struct):
    """How a run deviates from a good run.

    Attributes:
        path: the path of the good run's trace.
        run: its id.
        deviations: the deviations of each rank, most significant first.
        limits: what was not compared, and why, in a few words each.
    """

    path: str
    run: str
    deviations: list[OfRank]
    limits: list[str]


class _Pair(NamedTuple):
    """The files of one rank: of the run, and of the good run."""

    files: tuple[TraceFile, TraceFile]
    period: Period | None


class _OfPair(NamedTuple):
    deviations: list[Deviation]
    limits: list[str]
    is_alike: bool


def compare_with_good_run(
    trace: Trace, good: Trace, workers: Workers | None = None, period: Period | None = None
) -> GoodRunComparison:
    """Read two runs, rank by rank. Memory grows with the model, not with the length of the runs.

    Args:
        trace: a run.
        good: another run of the same script, which went well.
        workers: reads the files; if None, this process does.
        period: compare only this period.

    Raises:
        SameRunError: if both are the same run.
        NothingAlikeError: if they have nothing in common.
        TraceError: if a file cannot be read.
    """
    if {file.path.absolute() for file in trace.files} & {file.path.absolute() for file in good.files}:
        raise SameRunError(trace.path, good.path, trace.files[0].run.run)
    chosen = [{file.run.rank: file for file in file_of_each_rank(each)[0]} for each in (trace, good)]
    ranks = sorted(chosen[0].keys() & chosen[1].keys())
    pairs = [_Pair((chosen[0][rank], chosen[1][rank]), period) for rank in ranks]
    found = list((workers or Workers()).map(_compare_files, pairs))
    if not any(each.is_alike for each in found):
        raise NothingAlikeError(trace.path, good.path)
    return GoodRunComparison(
        str(good.path),
        good.files[0].run.run,
        [OfRank(each, rank) for rank, of_rank in zip(ranks, found, strict=True) for each in of_rank.deviations],
        [*dict.fromkeys(limit for each in found for limit in each.limits), *_left_out(trace, good)],
    )


def _compare_files(pair: _Pair, report: Report) -> _OfPair:
    names = [scan(file).names for file in pair.files]
    correspondence = find_correspondence(*names)
    recorded = Recorded(names, correspondence)
    here, there = (
        collect_facts(
            file,
            of_file,
            correspondence.modules[number],
            correspondence.tensors[number],
            _both(recorded.filter_of(number), pair.period),
            report,
        )
        for number, (file, of_file) in enumerate(zip(pair.files, names, strict=True))
    )
    deviations = find_deviations(here, there, has_gaps=recorded.has_gaps)
    is_alike = any(key in there.subjects for key in here.subjects if key[0] not in (facts.RUN, facts.CONFIGURATION))
    return _OfPair(deviations, recorded.limits(), is_alike)


def _both(is_recorded: Callable[[Any], bool] | None, period: Period | None) -> Callable[[Any], bool] | None:
    """A test of whether a record is in the period, and of a kind that both runs record; None if all are."""
    if period is None:
        return is_recorded

    def is_wanted(event: Any) -> bool:
        if isinstance(event, events.StateTensor | events.RunEnd) or period.has(event):
            return is_recorded is None or is_recorded(event)
        return False

    return is_wanted


def _left_out(trace: Trace, good: Trace) -> Sequence[str]:
    """The files that only one of the runs has, in words."""
    limits = []
    for words, one, other in (("this run", trace, good), ("the good run", good, trace)):
        if alone := sorted(set(one.ranks()) - set(other.ranks())):
            limits.append(f"{format_ranks(alone)} of {words} alone")
        further = file_of_each_rank(one)[1]
        if further:
            limits.append(f"{format_count(len(further), 'file')} of further processes of a rank of {words}")
    return limits
