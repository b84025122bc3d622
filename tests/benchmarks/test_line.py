"""Straight lines through points."""

from __future__ import annotations

import numpy as np
import pytest

from overhead.line import fit_line


def test_points_on_a_line_are_fitted_without_error() -> None:
    assert fit_line([0, 1, 2, 3], [1, 3, 5, 7]) == pytest.approx((1, 2, 0, 1))


def test_slope_and_error_are_those_of_numpy() -> None:
    generator = np.random.default_rng(0)
    x = np.arange(50.0)
    y = 3 * x - 4 + generator.normal(size=50)
    (slope, intercept), covariance = np.polyfit(x, y, 1, cov=True)
    line = fit_line(x.tolist(), y.tolist())
    assert line[:3] == pytest.approx((intercept, slope, covariance[0, 0] ** 0.5))
    assert line.r_squared == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2)


def test_two_points_are_too_few() -> None:
    with pytest.raises(ValueError, match="three are needed"):
        fit_line([0, 1], [0, 1])
