"""Compares a run with several that differ only in their seeds, and finds values outside their range."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from proxy_trace.comparison.baseline.course import Task, collect, count_steps
from proxy_trace.comparison.baseline.outliers import LEAST_BASELINES, find_outliers
from proxy_trace.comparison.ranks import file_of_each_rank
from proxy_trace.errors import NothingInBaselineError, SameBaselinesError, SameRunError, TooFewBaselinesError
from proxy_trace.reading.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_trace.comparison.baseline.course import Course, Quantity
    from proxy_trace.reading.selection import StepRange
    from proxy_trace.reading.trace import Trace

_SPANS = 16
_FIXED = frozenset({"parameter"})
"""Kinds that do not depend on the seed if all baselines agree. Buffers are left out: they may count rare events."""


class OutlyingValue(msgspec.Struct):
    """A value outside the range of the baselines.

    Attributes:
        rank: the rank.
        kind: "parameter", "buffer", "gradient" or "output".
        name: the name of the tensor, or of the module that returned it.
        first_step: the first step in which it is outside.
        ranges: the distance, in units of the baselines' range; "inf" if these are all the same, and for a non-finite
            value.
        norm: the mean norm in these steps; "nan" for a non-finite value.
        lowest: the lowest baseline value there.
        highest: the highest.
    """

    rank: int
    kind: str
    name: str
    first_step: int
    ranges: float | str
    norm: float | str
    lowest: float
    highest: float


class BaselineComparison(msgspec.Struct):
    """The result of comparing a run with baselines.

    Attributes:
        path: the run.
        run: its id.
        baselines: the ids of the baselines.
        ranks: the ranks that all runs have.
        steps: the number of steps compared: that of the shortest run.
        quantities: the number of parameters, buffers, gradients and outputs compared.
        configuration: torch settings that are the same in all baselines, and different in the run: by name, the value
            in the run and the value in the baselines.
        outliers: the values outside, the farthest first.
        left_out: the number of quantities that only some runs have.
    """

    path: str
    run: str
    baselines: list[str]
    ranks: list[int]
    steps: int
    quantities: int
    configuration: dict[str, list[str]]
    outliers: list[OutlyingValue]
    left_out: int

    @property
    def agrees(self) -> bool:
        """Whether no value is outside, and no setting differs."""
        return not (self.outliers or self.configuration)


def compare_with_baseline(
    trace: Trace,
    baselines: Sequence[Trace],
    steps: StepRange | None = None,
    is_chosen: Callable[[str], bool] | None = None,
    workers: Workers | None = None,
) -> BaselineComparison:
    """Read all runs and compare the norms of `trace` with those of `baselines`, by the rule in `outliers`.

    Args:
        trace: the run in question.
        baselines: runs that differ from each other only in their seeds.
        steps: compare up to its last step. Its first step is ignored.
        is_chosen: which parameters, buffers and modules to compare, by name; None for all.
        workers: reads the files; if None, this process does.

    Raises:
        TooFewBaselinesError: if there are fewer than `LEAST_BASELINES`.
        SameRunError: if a run is given twice.
        SameBaselinesError: if two baselines have the same values everywhere.
        NothingInBaselineError: if the runs have nothing in common.
        TraceError: if a file cannot be read.
    """
    if len(baselines) < LEAST_BASELINES:
        raise TooFewBaselinesError(len(baselines), LEAST_BASELINES)
    traces = [trace, *baselines]
    _check_that_all_differ(traces)
    of_ranks = [{file.run.rank: file for file in file_of_each_rank(each)[0]} for each in traces]
    ranks = sorted(set.intersection(*(set(files) for files in of_ranks)))
    files = [of_run[rank] for of_run in of_ranks for rank in ranks]
    reading = workers or Workers()
    count = min(reading.map(count_steps, files), default=0)
    if steps is not None and steps.last is not None:
        count = min(count, steps.last + 1)
    width = max(1, math.ceil(count / _SPANS))
    spans = max(1, count // width)
    courses = list(reading.map(collect, [Task(file, spans, width, is_chosen) for file in files]))
    runs = [_joined(courses[number * len(ranks) : (number + 1) * len(ranks)]) for number in range(len(traces))]
    comparable, left_out = _comparable(runs)
    if not comparable:
        raise NothingInBaselineError(trace.path)
    if is_chosen is None:
        _check_that_baselines_differ(baselines, [[run.means[key] for key in comparable] for run in runs[1:]])
    found = find_outliers(
        [{key: run.means[key] for key in comparable} for run in runs],  # type: ignore[misc]
        {key: key.kind for key in comparable},
        _FIXED,
    )
    outliers = [*_not_finite(runs)]
    for each in found:
        quantity: Quantity = each.key  # type: ignore[assignment]
        ranges = each.score if math.isfinite(each.score) else "inf"
        outliers.append(OutlyingValue(*quantity, each.span * width, ranges, each.value, each.lowest, each.highest))
    return BaselineComparison(
        path=str(trace.path),
        run=trace.files[0].run.run,
        baselines=[each.files[0].run.run for each in baselines],
        ranks=ranks,
        steps=count,
        quantities=len(comparable),
        configuration=_settings_apart(runs),
        outliers=outliers,
        left_out=left_out,
    )


def _check_that_all_differ(traces: Sequence[Trace]) -> None:
    seen: dict[object, int] = {}
    for number, trace in enumerate(traces):
        for file in trace.files:
            known = seen.setdefault(file.path.resolve(), number)
            if known != number:
                raise SameRunError(traces[known].path, trace.path, file.run.run)


def _check_that_baselines_differ(baselines: Sequence[Trace], values: Sequence[list[list[float | None]]]) -> None:
    for number, mine in enumerate(values):
        for other in range(number):
            if values[other] == mine:
                raise SameBaselinesError(baselines[other].path, baselines[number].path)


def _joined(courses: Sequence[Course]) -> Course:
    """Merge the ranks of a run."""
    first = courses[0]
    for course in courses[1:]:
        first.means.update(course.means)
        first.non_finite.update(course.non_finite)
    return first


def _comparable(runs: Sequence[Course]) -> tuple[list[Quantity], int]:
    """The quantities that all runs have in each span, and the number of those that only some have."""
    every = dict.fromkeys(key for run in runs for key in run.means)
    common = [key for key in every if all(None not in run.means.get(key, [None]) for run in runs)]
    not_finite = {key for run in runs for key in run.non_finite}
    return common, len(every.keys() - set(common) - not_finite)


def _not_finite(runs: Sequence[Course]) -> list[OutlyingValue]:
    """What is not finite in the first run but finite in all others."""
    others = {key for run in runs[1:] for key in run.non_finite}
    found = []
    for key, step in sorted(runs[0].non_finite.items(), key=lambda item: item[1]):
        means = [each for run in runs[1:] for each in run.means.get(key, []) if each is not None]
        if key not in others and means:
            found.append(OutlyingValue(*key, step, "inf", "nan", min(means), max(means)))
    return found


def _settings_apart(runs: Sequence[Course]) -> dict[str, list[str]]:
    """Settings with one value in all baselines, and another in the run. Seeds differ between baselines anyway."""
    mine, others = runs[0].settings, [run.settings for run in runs[1:]]
    found = {}
    for name, value in mine.items():
        theirs = {repr(other[name]) for other in others if name in other}
        if len(theirs) == 1 and all(name in other for other in others) and theirs != {repr(value)}:
            found[name] = [str(value), str(others[0][name])]
    return found
