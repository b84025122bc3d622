"""Curves are thinned by extremes: what stays is so, and no spike is lost."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from proxy_trace.report.curves import Curve, Curves, Points, Room


def thinned(values: list[float], steps: list[int] | None = None, most_points: int = 40) -> Points:
    curve = Curve(Room(most_points))
    for step, value in zip(steps or range(len(values)), values, strict=True):
        curve.add(step, value)
    return curve.points()


def test_a_short_curve_stays_whole() -> None:
    points = thinned([3.0, 1.0, 2.0], [-1, 0, 7])
    assert (list(points.steps), list(points.values)) == ([-1, 0, 7], [3.0, 1.0, 2.0])


def test_a_spike_of_one_step_stays_in_a_hundred_thousand() -> None:
    values = [math.sin(step / 50) for step in range(100_000)]
    values[61_803], values[31_415] = 99.0, -99.0
    points = thinned(values)
    kept = dict(zip(points.steps, points.values, strict=True))
    assert (kept[61_803], kept[31_415]) == (99.0, -99.0)
    assert len(points.steps) <= 60


def test_the_first_value_that_is_not_finite_stays() -> None:
    values = [1.0] * 10_000
    values[5000:] = [math.nan] * 5000
    values[7000] = math.inf
    points = thinned(values)
    broken = [step for step, value in zip(points.steps, points.values, strict=True) if not math.isfinite(value)]
    assert broken[0] == 5000
    assert any(math.isfinite(value) for value in points.values)


def test_several_values_of_a_step_keep_their_order() -> None:
    assert list(thinned([5.0, 4.0, 6.0], [2, 2, 2]).values) == [5.0, 4.0, 6.0]


def test_steps_that_begin_anew_are_put_in_order() -> None:
    assert list(thinned([1.0, 2.0, 3.0], [5, 6, 0]).steps) == [0, 5, 6]


@given(
    st.lists(st.tuples(st.integers(-1, 10**6), st.floats(width=32)), min_size=1, max_size=400),
    st.integers(1, 100),
)
def test_what_stays_was_there_with_the_extremes(records: list[tuple[int, float]], most_points: int) -> None:
    points = thinned([value for _, value in records], [step for step, _ in records], most_points)
    assert list(points.steps) == sorted(points.steps)
    there = {(step, repr(value)) for step, value in records}
    assert {(step, repr(value)) for step, value in zip(points.steps, points.values, strict=True)} <= there
    finite = [value for _, value in records if math.isfinite(value)]
    if finite:
        kept = [value for value in points.values if math.isfinite(value)]
        assert (min(kept), max(kept)) == (min(finite), max(finite))
    assert any(not math.isfinite(value) for value in points.values) == (len(finite) < len(records))


def test_many_curves_share_the_room() -> None:
    curves: Curves[int] = Curves(Room(1000), most=100)
    for step in range(500):
        for key in range(50):
            curves.add(key, step, float(step * key % 17))
    assert sum(len(points.steps) for points in curves.points().values()) <= 1500


def test_curves_beyond_the_most_are_counted() -> None:
    curves: Curves[int] = Curves(Room(1000), most=2)
    for key in (1, 2, 3, 3):
        curves.add(key, 0, 1.0)
    assert (sorted(curves.points()), curves.left_out) == ([1, 2], 2)
