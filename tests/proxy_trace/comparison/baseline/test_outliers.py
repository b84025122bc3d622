"""A run with another seed is not named, whatever the distribution; one that lies far outside throughout is."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest

from proxy_trace.comparison.baseline.outliers import LEAST_BASELINES, LEAST_SCORE, find_outliers

if TYPE_CHECKING:
    from collections.abc import Callable

SPANS = 8
FIXED = frozenset({"parameter"})


def normal(draw: random.Random) -> float:
    return abs(10 + draw.gauss(0, 1))


def heavy_tailed(draw: random.Random) -> float:
    """Student's t with three degrees of freedom: it has no third moment."""
    return abs(50 + draw.gauss(0, 1) / math.sqrt(sum(draw.gauss(0, 1) ** 2 for _ in range(3)) / 3))


def over_orders_of_magnitude(draw: random.Random) -> float:
    return math.exp(2 * draw.gauss(0, 1))


def near_zero(draw: random.Random) -> float:
    return abs(draw.gauss(0, 1))


Runs = list[dict[int, list[float]]]


def runs_of(
    draw: random.Random, value: Callable[[random.Random], float], quantities: int, *, are_bound: bool, count: int
) -> Runs:
    """Runs of one distribution: each quantity is constant but for a little noise, the worst case for a rule that asks
    for persistence; the quantities move together if `are_bound`."""
    made: Runs = []
    for _ in range(count):
        common = value(draw)
        course = {}
        for quantity in range(quantities):
            level = common if are_bound else value(draw)
            course[quantity] = [level * (1 + 0.02 * draw.random()) for _ in range(SPANS)]
        made.append(course)
    return made


def outliers(runs: Runs, kind: str = "gradient") -> list[int]:
    found = find_outliers(runs, dict.fromkeys(runs[0], kind), FIXED)  # type: ignore[arg-type]
    return [each.key for each in found]  # type: ignore[misc]


@pytest.mark.parametrize("are_bound", [False, True], ids=["independent quantities", "quantities that move together"])
@pytest.mark.parametrize(
    ("value", "percent"),
    [(normal, 1.0), (over_orders_of_magnitude, 1.0), (near_zero, 1.0), (heavy_tailed, 3.0)],
)
def test_a_run_with_another_seed_is_hardly_ever_named(
    value: Callable[[random.Random], float], percent: float, are_bound: bool
) -> None:
    draw = random.Random(20)
    tries = 100
    alarms = sum(
        bool(outliers(runs_of(draw, value, 12, are_bound=are_bound, count=1 + LEAST_BASELINES))) for _ in range(tries)
    )
    assert 100 * alarms / tries <= percent


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_a_value_far_outside_is_named(factor: float) -> None:
    runs = runs_of(random.Random(1), normal, 12, are_bound=False, count=7)
    runs[0][3] = [value * factor for value in runs[0][3]]
    (found,) = find_outliers(runs, dict.fromkeys(range(12), "gradient"))  # type: ignore[arg-type]
    assert (found.key, found.span) == (3, 0)
    assert found.score > LEAST_SCORE
    assert not found.lowest <= found.value <= found.highest


def test_what_lies_outside_from_some_time_on_is_named_with_it() -> None:
    runs = runs_of(random.Random(2), normal, 5, are_bound=False, count=7)
    runs[0][3][5:] = [100 * value for value in runs[0][3][5:]]
    (found,) = find_outliers(runs, dict.fromkeys(range(5), "gradient"))  # type: ignore[arg-type]
    assert (found.key, found.span) == (3, 5)


def test_what_lies_outside_only_once_is_not_named() -> None:
    runs = runs_of(random.Random(3), normal, 5, are_bound=False, count=7)
    runs[0][3][5] *= 100
    assert outliers(runs) == []


def test_a_baseline_that_lies_outside_itself_makes_the_rule_wider() -> None:
    runs = runs_of(random.Random(4), normal, 5, are_bound=False, count=7)
    runs[0][3] = [value * 3 for value in runs[0][3]]
    assert outliers(runs) == [3]
    runs[1][4] = [value * 30 for value in runs[1][4]]
    assert outliers(runs) == []


def test_a_parameter_that_is_the_same_in_all_baselines_does_not_depend_on_the_seed() -> None:
    runs = runs_of(random.Random(5), normal, 5, are_bound=False, count=7)
    for run in runs:
        run[3] = [2.0] * SPANS
    assert outliers(runs, "parameter") == []
    runs[0][3] = [2.001] * SPANS
    assert outliers(runs, "parameter") == [3]
    assert outliers(runs, "buffer") == []


def test_values_that_are_all_zero_are_no_outliers() -> None:
    runs: Runs = [{0: [0.0] * SPANS} for _ in range(7)]
    assert outliers(runs) == []
