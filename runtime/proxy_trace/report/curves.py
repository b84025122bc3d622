"""Curves over the steps of a run, thinned while they are read. The extremes of each interval of steps are kept.

A spike of a single step therefore stays visible, with its step and value, however long the run is. All points are
recorded values, never averages.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

K = TypeVar("K")

_MOST_STRETCHES: Final = 512
"""The number of intervals of a curve if there is room: about as many as a screen can resolve."""

_FEWEST_STRETCHES: Final = 4
_GATHERED: Final = 8
"""The number of points per interval before a curve is thinned, which leaves at most three."""


class Points(NamedTuple):
    """The points of a curve, by step; within a step, in order of arrival."""

    steps: array[int]
    values: array[float]


class Room:
    """The room for the points of all curves, which bounds their memory.

    Attributes:
        stretches: the number of intervals of each curve.
        gathered: the number of points a curve may have before it is thinned.
    """

    def __init__(self, most_points: int) -> None:
        """Start without curves. `most_points` is the total number of points, unless there are very many curves."""
        self.stretches = _MOST_STRETCHES
        self.gathered = _MOST_STRETCHES * _GATHERED
        self._most_points = most_points
        self._curves = 0

    def take_in(self) -> None:
        """Make room for another curve. If there are many, each gets less."""
        self._curves += 1
        fair = self._most_points // (2 * self._curves)
        self.stretches = min(_MOST_STRETCHES, max(_FEWEST_STRETCHES, fair))
        self.gathered = self.stretches * _GATHERED


class Curve:
    """A value by step. A step may have several values."""

    __slots__ = ("_room", "_steps", "_values")

    def __init__(self, room: Room) -> None:
        """Start without points; `room` limits their number."""
        room.take_in()
        self._room = room
        self._steps = array("q")
        self._values = array("d")

    def add(self, step: int, value: float) -> None:
        """Add a value."""
        self._steps.append(step)
        self._values.append(value)
        if len(self._steps) > self._room.gathered:
            self._thin()

    def points(self) -> Points:
        """The points kept: at most three per interval."""
        if len(self._steps) > 2 * self._room.stretches:
            self._thin()
        else:
            self._sort()
        return Points(self._steps, self._values)

    def _thin(self) -> None:
        self._sort()
        steps, values = self._steps, self._values
        width = (steps[-1] - steps[0]) // self._room.stretches + 1
        kept = list(_extremes(steps, values, width))
        self._steps = array("q", (steps[place] for place in kept))
        self._values = array("d", (values[place] for place in kept))

    def _sort(self) -> None:
        """Sort by step. Threads and restarted tracers may go back to earlier steps."""
        steps = self._steps
        if any(map(int.__gt__, steps, steps[1:])):
            order = sorted(range(len(steps)), key=steps.__getitem__)
            self._values = array("d", (self._values[place] for place in order))
            self._steps = array("q", (steps[place] for place in order))


class Curves(Generic[K]):
    """Curves by key."""

    def __init__(self, room: Room, most: int) -> None:
        """Start without curves. Only the first `most` are kept."""
        self.left_out = 0
        self._room = room
        self._most = most
        self._curves: dict[K, Curve] = {}

    def add(self, key: K, step: int, value: float) -> None:
        """Add a value to the curve of `key`."""
        curve = self._curves.get(key)
        if curve is None:
            if len(self._curves) >= self._most:
                self.left_out += 1
                return
            curve = self._curves[key] = Curve(self._room)
        curve.add(step, value)

    def points(self) -> dict[K, Points]:
        """The points kept of each curve."""
        return {key: curve.points() for key, curve in self._curves.items()}


def _extremes(steps: Sequence[int], values: Sequence[float], width: int) -> Iterator[int]:
    """The positions of the minimum, the maximum and the first non-finite value in each interval of `width` steps."""
    first = steps[0]
    stretch = -1
    lowest = highest = other = -1
    for place, value in enumerate(values):
        now = (steps[place] - first) // width
        if now != stretch:
            yield from sorted({lowest, highest, other} - {-1})
            stretch, lowest, highest, other = now, -1, -1, -1
        if not math.isfinite(value):
            other = place if other < 0 else other
        elif lowest < 0:
            lowest = highest = place
        elif value < values[lowest]:
            lowest = place
        elif value > values[highest]:
            highest = place
    yield from sorted({lowest, highest, other} - {-1})
