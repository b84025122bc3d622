"""How far two runs have gone apart, by module and step: relative differences of norms."""

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
"""Into so many spans of steps a run is divided at most."""

UNKNOWN: Final = math.inf
"""The distance of values of which a norm is not finite, and of those that only one run has."""


class Distance(msgspec.Struct):
    """How far apart something is in a span of steps.

    Attributes:
        first_step: the first step of the span.
        last_step: the last.
        largest: the largest relative difference of the norms in it; 0 where only the bits differ, "inf" where a norm is
            not finite.
        records: how many records had other values.
    """

    first_step: int
    last_step: int
    largest: float | str
    records: int


class Series(msgspec.Struct):
    """How far the outputs, gradients, parameters or buffers of a module went apart in the course of a run.

    Attributes:
        rank: in which rank.
        module: the module's name in the first run.
        kind: one of `KINDS`.
        first_step: the first step in which something differed; -1 for before the first call.
        distances: for each span of steps in which something differed, ascending.
    """

    rank: int
    module: str
    kind: str
    first_step: int
    distances: list[Distance]


class Distances:
    """Collects them, in memory that is bounded for any number of steps and modules."""

    def __init__(self) -> None:
        self.left_out = 0
        self._width = 1
        self._series: dict[tuple[str, int], dict[int, tuple[float, int]]] = {}
        self._first_steps: dict[tuple[str, int], int] = {}
        self._last_step = 0

    def note(self, kind: str, module: int, step: int, distance: float) -> None:
        """Values of a kind, of a module (by its number), differ in a step."""
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
        """What was collected, those that differed first before the others; `names` are those of the modules."""
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
    """The relative difference of two norms: 0 for the same, 1 where one is 0, `UNKNOWN` where one is not finite."""
    one, other = _norm(first), _norm(second)
    if one is None or other is None:
        return UNKNOWN
    if one == other:
        return 0.0
    return abs(one - other) / max(abs(one), abs(other))


def _norm(statistics: Statistics | None) -> float | None:
    norm: Number | None = statistics.norm if statistics is not None else None
    return float(norm) if isinstance(norm, (int, float)) else None
