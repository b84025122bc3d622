"""Norms in records, compared without their last digits: these depend on the order in which squares are added."""

from __future__ import annotations

import math
from typing import Any


class RoughNumber(float):
    """A number that equals each that differs from it in the last digits of single precision alone."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and math.isclose(self, other, rel_tol=1e-5)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def with_rough_norms(value: Any) -> Any:
    """What was decoded from JSON, with a `RoughNumber` for each norm."""
    if isinstance(value, list):
        return [with_rough_norms(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: RoughNumber(each) if key == "norm" and isinstance(each, float) else with_rough_norms(each)
        for key, each in value.items()
    }
