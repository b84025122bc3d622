"""A straight line through points, by least squares."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Line(NamedTuple):
    """y = `intercept` + `slope` x. `slope_error` is the slope's standard error, `r_squared` the share explained."""

    intercept: float
    slope: float
    slope_error: float
    r_squared: float


def fit_line(x: Sequence[float], y: Sequence[float]) -> Line:
    """The least-squares line through three or more points, not all above each other.

    Raises:
        ValueError: if there are fewer.
    """
    count = len(x)
    if count < 3:
        raise ValueError(f"{count} points give no line with an error; three are needed")
    mean_x, mean_y = math.fsum(x) / count, math.fsum(y) / count
    spread = math.fsum((a - mean_x) ** 2 for a in x)
    slope = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread
    intercept = mean_y - slope * mean_x
    left = math.fsum((b - intercept - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    total = math.fsum((b - mean_y) ** 2 for b in y)
    error = math.sqrt(left / (count - 2) / spread)
    return Line(intercept, slope, error, 1 - left / total if total else 1.0)
