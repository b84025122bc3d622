"""How far values went apart is kept by module and span of steps, for a run of any length."""

from __future__ import annotations

import math

import pytest

from proxy_trace.comparison.records.distances import (
    GRADIENT,
    MOST_SERIES,
    MOST_SPANS,
    OUTPUT,
    UNKNOWN,
    Distances,
    distance_of,
)
from proxy_wrapper.events import Statistics


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param(2.0, 2.0, 0.0, id="the same norm"),
        pytest.param(1.0, 4.0, 0.75, id="relative to the larger one"),
        pytest.param(4.0, 1.0, 0.75, id="either way round"),
        pytest.param(0.0, 3.0, 1.0, id="nothing in common"),
        pytest.param(0.0, 0.0, 0.0, id="two zeros"),
        pytest.param("nan", 3.0, UNKNOWN, id="not finite"),
        pytest.param(None, 3.0, UNKNOWN, id="no norm"),
    ],
)
def test_a_distance_is_the_relative_difference_of_norms(first: float, second: float, expected: float) -> None:
    assert distance_of(Statistics(norm=first), Statistics(norm=second)) == expected


def test_each_module_and_kind_has_its_course() -> None:
    distances = Distances()
    distances.note(OUTPUT, 1, 3, 0.5)
    distances.note(OUTPUT, 1, 3, 0.25)
    distances.note(OUTPUT, 1, 5, math.inf)
    distances.note(GRADIENT, 2, -1, 0.0)
    gradient, output = distances.series(7, {1: "model.a", 2: "model.b"})
    assert (gradient.rank, gradient.module, gradient.kind, gradient.first_step) == (7, "model.b", GRADIENT, -1)
    assert [(each.first_step, each.last_step, each.largest) for each in gradient.distances] == [(-1, -1, 0.0)]
    assert (output.module, output.first_step) == ("model.a", 3)
    found = [(each.first_step, each.last_step, each.largest, each.records) for each in output.distances]
    assert found == [(3, 3, 0.5, 2), (5, 5, "inf", 1)]


@pytest.mark.parametrize("steps", [MOST_SPANS, MOST_SPANS + 1, 1000, 12_345])
def test_long_runs_have_longer_spans(steps: int) -> None:
    distances = Distances()
    for step in range(steps):
        distances.note(OUTPUT, 1, step, step / steps)
    (series,) = distances.series(0, {1: "m"})
    assert len(series.distances) <= MOST_SPANS
    assert sum(each.records for each in series.distances) == steps
    assert all(each.largest == min(each.last_step, steps - 1) / steps for each in series.distances)


def test_a_step_of_any_size_comes_to_an_end() -> None:
    distances = Distances()
    distances.note(OUTPUT, 1, 0, 0.5)
    distances.note(OUTPUT, 1, 2**53, 0.5)
    assert len(distances.series(0, {})[0].distances) == 2


def test_only_so_many_courses_are_kept() -> None:
    distances = Distances()
    for module in range(MOST_SERIES + 5):
        distances.note(OUTPUT, module, 0, 0.5)
    assert len(distances.series(0, {})) == MOST_SERIES
    assert distances.left_out == 5
