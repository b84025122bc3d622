"""Which values of a run lie outside what runs with other seeds give: the rule, free of traces.

Each of the runs, the one in question and the baselines, gets a score for each quantity in the same way: how far it lies
beyond the range of all the others, in units of that range. So runs that differ in their seeds alone are exchangeable:
the largest score of the run in question is larger than those of all n baselines with a probability of at most
1 / (n + 1), whatever the distribution, and however the quantities depend on each other. On top of that it must be
`MARGIN` times as large as the largest of the baselines', and at least `LEAST_SCORE` ranges.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

LEAST_BASELINES: Final = 5
LEAST_SCORE: Final = 4.0
MARGIN: Final = 4.0

_FLOOR: Final = 0.1
"""No range counts as smaller than this share of the median range of all quantities of its kind, relative to their size:
among thousands of quantities some have a small range by chance."""

_TINY: Final = 1e-300

_PERSISTENT: Final = 4
"""A value must lie outside in one of so many parts of the run, from its beginning to its end."""


class Outlier(NamedTuple):
    """A quantity that lies outside.

    Attributes:
        key: which.
        span: the first span of those in which it does.
        score: how many ranges it lies beyond the baselines; infinite where these are all the same.
        value: its value there.
        lowest: the lowest of the baselines there.
        highest: the highest.
    """

    key: Hashable
    span: int
    score: float
    value: float
    lowest: float
    highest: float


class _Scale(NamedTuple):
    """A way to measure: values as `of` gives them, and how small a range may be, by quantity."""

    of: Callable[[float], float]
    floors: Mapping[Hashable, float]


def find_outliers(
    runs: Sequence[Mapping[Hashable, Sequence[float]]],
    kinds: Mapping[Hashable, str],
    fixed: frozenset[str] = frozenset(),
) -> list[Outlier]:
    """The quantities of the first run that lie outside what the others have, the farthest first.

    A value must lie outside both as it is and by its logarithm: a norm may be spread over orders of magnitude, or all
    but zero.

    Args:
        runs: for each run the values of each quantity, none negative, in spans; the same quantities and spans in all.
        kinds: of which kind each quantity is.
        fixed: kinds of which a value that is the same in all baselines, and not 0, does not depend on the seed.
    """
    scales = [_Scale(of, _floors(runs, kinds, of)) for of in (float, _log)]
    largest = 0.0
    candidates: dict[Hashable, list[float]] = {}
    for key in runs[0]:
        courses = [run[key] for run in runs]
        is_fixed = kinds[key] in fixed
        candidates[key] = _scores(courses, 0, key, scales, is_fixed=is_fixed)
        for number in range(1, len(runs)):
            largest = max(largest, *_scores(courses, number, key, scales, is_fixed=is_fixed))
    threshold = max(LEAST_SCORE, MARGIN * largest)
    found = []
    for key, scores in candidates.items():
        span = next((span for span, score in enumerate(scores) if score > threshold), None)
        if span is not None:
            others = [run[key][span] for run in runs[1:]]
            found.append(Outlier(key, span, max(scores), runs[0][key][span], min(others), max(others)))
    return sorted(found, key=lambda each: -each.score)


def _scores(
    courses: Sequence[Sequence[float]], number: int, key: Hashable, scales: Sequence[_Scale], *, is_fixed: bool
) -> list[float]:
    """How far one run lies beyond the range of the others, throughout each part of the run: by its first span."""
    mine = courses[number]
    others = [course for other, course in enumerate(courses) if other != number]
    if is_fixed and _is_constant(others):
        beyond = [math.copysign(math.inf, value - others[0][0]) if value != others[0][0] else 0.0 for value in mine]
    else:
        beyond = [
            min(pair, key=abs) for pair in zip(*(_beyond(mine, others, key, scale) for scale in scales), strict=True)
        ]
    return _persistent(beyond)


def _is_constant(courses: Sequence[Sequence[float]]) -> bool:
    return courses[0][0] != 0 and len({value for course in courses for value in course}) == 1


def _beyond(mine: Sequence[float], others: Sequence[Sequence[float]], key: Hashable, scale: _Scale) -> list[float]:
    """In each span how many ranges a value lies above the highest (positive) or below the lowest (negative)."""
    spans = [[scale.of(course[span]) for course in others] for span in range(len(mine))]
    lows, highs = [min(values) for values in spans], [max(values) for values in spans]
    unit = max(sum(highs) - sum(lows), len(mine) * scale.floors[key]) / len(mine)
    found = []
    for value, low, high in zip(map(scale.of, mine), lows, highs, strict=True):
        distance = value - high if value > high else min(0.0, value - low)
        found.append(distance / unit if unit > 0 else 0.0)
    return found


def _persistent(beyond: Sequence[float]) -> list[float]:
    """For each part of the run the smallest distance in it, of those that are on one side."""
    length = max(1, math.ceil(len(beyond) / _PERSISTENT))
    parts = [beyond[start : start + length] for start in range(len(beyond) - length + 1)]
    return [max(min(part), -max(part), 0.0) for part in parts]


def _floors(
    runs: Sequence[Mapping[Hashable, Sequence[float]]], kinds: Mapping[Hashable, str], of: Callable[[float], float]
) -> dict[Hashable, float]:
    """How small a range may be: a share of what is common for quantities of a kind and of that size."""
    shares: dict[str, list[float]] = {}
    sizes: dict[Hashable, float] = {}
    for key, kind in kinds.items():
        values = [[of(run[key][span]) for run in runs] for span in range(len(runs[0][key]))]
        width = sum(max(each) - min(each) for each in values) / len(values)
        size = 1.0 if of is _log else sum(map(sum, values)) / (len(values) * len(runs))
        sizes[key] = size
        shares.setdefault(kind, []).append(width / size if size else 0.0)
    medians = {kind: median(each) for kind, each in shares.items()}
    return {key: _FLOOR * medians[kinds[key]] * sizes[key] for key in kinds}


def _log(value: float) -> float:
    return math.log(max(value, _TINY))
