"""Measures how far two runs diverge, by module and step, as relative differences of norms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from proxy_wrapper.events import Number, Statistics

OUTPUT: Final = "output"
PARAMETER: Final = "parameter"
BUFFER: Final = "buffer"
GRADIENT: Final = "gradient"
KINDS: Final = (OUTPUT, GRADIENT, PARAMETER, BUFFER)

MOST_SERIES: Final = 1 << 12
MOST_SPANS: Final = 64
"""The maximum number of spans of steps."""

UNKNOWN: Final = math.inf
"""The distance if a norm is not finite, or if only one run has the values."""


class Distance(msgspec.Struct):
    """A distance in a span of steps.

    Attributes:
        first_step: the first step of the span.
        last_step: the last.
        largest: the largest relative difference of norms in the span; 0 if only bits differ, "inf" if a norm is not
            finite.
        records: the number of records with different values.
    """

    first_step: int
    last_step: int
    largest: float | str
    records: int


class Series(msgspec.Struct):
    """How far the outputs, gradients, parameters or buffers of a module diverge during a run.

    Attributes:
        rank: the rank.
        module: the module's name in the first run.
        kind: one of `KINDS`.
        first_step: the first step with a difference; -1 for before the first call.
        distances: the spans of steps with differences, in order.
    """

    rank: int
    module: str
    kind: str
    first_step: int
    distances: list[Distance]


class Distances:
    """Collects distances, in memory that is bounded for any number of steps and modules."""

    def __init__(self) -> None:
        self.left_out = 0
        self._width = 1
        self._series: dict[tuple[str, int], dict[int, tuple[float, int]]] = {}
        self._first_steps: dict[tuple[str, int], int] = {}
        self._last_step = 0

    def note(self, kind: str, module: int, step: int, distance: float) -> None:
        """Note that values of a kind, of a module (by number), differ in a step."""
        key = kind, module
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= MOST_SERIES:
                self.left_out += 1
                return
            series = self._series[key] = {}
            self._first_steps[key] = step
        self._last_step = max(self._last_step, step)
        while self._last_step // self._width >= MOST_SPANS:
            self._double()
            series = self._series[key]
        self._first_steps[key] = min(self._first_steps[key], step)
        span = step // self._width if step >= 0 else -1
        largest, records = series.get(span, (0.0, 0))
        series[span] = (max(largest, distance), records + 1)

    def series(self, rank: int, names: dict[int, str]) -> list[Series]:
        """The series, by the first step with a difference. `names` are those of the modules."""
        found = [
            Series(rank, names.get(module, ""), kind, self._first_steps[kind, module], self._spans(spans))
            for (kind, module), spans in self._series.items()
        ]
        return sorted(found, key=lambda each: (each.first_step, KINDS.index(each.kind)))

    def _spans(self, spans: dict[int, tuple[float, int]]) -> list[Distance]:
        return [
            Distance(
                span * self._width if span >= 0 else -1,
                (span + 1) * self._width - 1 if span >= 0 else -1,
                largest if math.isfinite(largest) else "inf",
                records,
            )
            for span, (largest, records) in sorted(spans.items())
        ]

    def _double(self) -> None:
        self._width *= 2
        for key, spans in self._series.items():
            merged: dict[int, tuple[float, int]] = {}
            for span, (largest, records) in spans.items():
                at = span // 2 if span >= 0 else -1
                known = merged.get(at, (0.0, 0))
                merged[at] = (max(known[0], largest), known[1] + records)
            self._series[key] = merged


def distance_of(first: Statistics | None, second: Statistics | None) -> float:
    """The relative difference of two norms: 0 if equal, 1 if one is 0, `UNKNOWN` if one is not finite."""
    one, other = _norm(first), _norm(second)
    if one is None or other is None:
        return UNKNOWN
    if one == other:
        return 0.0
    return abs(one - other) / max(abs(one), abs(other))


def _norm(statistics: Statistics | None) -> float | None:
    norm: Number | None = statistics.norm if statistics is not None else None
    return float(norm) if isinstance(norm, (int, float)) else None
