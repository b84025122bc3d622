"""The rule that decides which values of a run lie outside the range of runs with other seeds.

Each run, the tested one and each baseline, gets a score for each quantity in the same way: its distance from the range
of all the other runs, in units of that range. Runs that differ only in their seeds are therefore exchangeable: the
largest score of the tested run exceeds those of all n baselines with a probability of at most 1 / (n + 1), whatever the
distribution, and however the quantities depend on each other. The score must also be at least `MARGIN` times the
largest score of a baseline, and at least `LEAST_SCORE` ranges.
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
"""The minimum range, as a share of the median range of all quantities of the same kind, relative to their size. Among
thousands of quantities, some have a small range by chance."""

_TINY: Final = 1e-300

_PERSISTENT: Final = 4
"""A value must be outside throughout a stretch of the run, whose length is the run's divided by this."""


class Outlier(NamedTuple):
    """A quantity outside the range.

    Attributes:
        key: the quantity.
        span: the first span in which it is outside.
        score: its distance in ranges; infinite if all baselines are the same.
        value: its value there.
        lowest: the lowest baseline value there.
        highest: the highest.
    """

    key: Hashable
    span: int
    score: float
    value: float
    lowest: float
    highest: float


class _Scale(NamedTuple):
    """A scale: `of` transforms values; the minimum range, by quantity."""

    of: Callable[[float], float]
    floors: Mapping[Hashable, float]


def find_outliers(
    runs: Sequence[Mapping[Hashable, Sequence[float]]],
    kinds: Mapping[Hashable, str],
    fixed: frozenset[str] = frozenset(),
) -> list[Outlier]:
    """The quantities of the first run outside the range of the others, the farthest first.

    A value must lie outside both on a linear and on a logarithmic scale: norms may be spread over orders of magnitude,
    or be close to zero.

    Args:
        runs: for each run, the values of each quantity in spans, none negative. All have the same quantities and spans.
        kinds: the kind of each quantity.
        fixed: kinds of quantities that do not depend on the seed if their value is the same in all baselines, and not
            0.
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
    """How far one run is outside the range of the others throughout a stretch; by the first span of the stretch."""
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
    """In each span, how many ranges a value is above the highest (positive) or below the lowest (negative)."""
    spans = [[scale.of(course[span]) for course in others] for span in range(len(mine))]
    lows, highs = [min(values) for values in spans], [max(values) for values in spans]
    unit = max(sum(highs) - sum(lows), len(mine) * scale.floors[key]) / len(mine)
    found = []
    for value, low, high in zip(map(scale.of, mine), lows, highs, strict=True):
        distance = value - high if value > high else min(0.0, value - low)
        found.append(distance / unit if unit > 0 else 0.0)
    return found


def _persistent(beyond: Sequence[float]) -> list[float]:
    """The smallest distance in each stretch, by its first span; 0 if not all are on one side."""
    length = max(1, math.ceil(len(beyond) / _PERSISTENT))
    parts = [beyond[start : start + length] for start in range(len(beyond) - length + 1)]
    return [max(min(part), -max(part), 0.0) for part in parts]


def _floors(
    runs: Sequence[Mapping[Hashable, Sequence[float]]], kinds: Mapping[Hashable, str], of: Callable[[float], float]
) -> dict[Hashable, float]:
    """The minimum range of each quantity: a share of what is common for its kind and size."""
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
