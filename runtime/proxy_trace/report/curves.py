"""Curves over the steps of a run, thinned while they are read: of each stretch of steps the extremes stay.

So a spike of a single step is still there, at its step and with its value, however long the run is. What stays is
always a record of the trace, never an average.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

K = TypeVar("K")

_MOST_STRETCHES: Final = 512
"""Into so many stretches a curve is parted where there is room: about as many as a screen can show apart."""

_FEWEST_STRETCHES: Final = 4
_GATHERED: Final = 8
"""So many points for each stretch are gathered before a curve is thinned, which leaves three at most."""


class Points(NamedTuple):
    """The points of a curve, by step; those of one step in the order in which they came."""

    steps: array[int]
    values: array[float]


class Room:
    """How much may be kept of all curves together, so that the memory they take has a bound.

    Attributes:
        stretches: into how many stretches the steps of each curve are parted.
        gathered: how many points a curve may have until it is thinned.
    """

    def __init__(self, most_points: int) -> None:
        """Begin without any curve. `most_points` is how many points all have, unless there are very many curves."""
        self.stretches = _MOST_STRETCHES
        self.gathered = _MOST_STRETCHES * _GATHERED
        self._most_points = most_points
        self._curves = 0

    def take_in(self) -> None:
        """Make room for one more curve: all get less, once there are many."""
        self._curves += 1
        fair = self._most_points // (2 * self._curves)
        self.stretches = min(_MOST_STRETCHES, max(_FEWEST_STRETCHES, fair))
        self.gathered = self.stretches * _GATHERED


class Curve:
    """A value by step. It may come several times in a step."""

    __slots__ = ("_room", "_steps", "_values")

    def __init__(self, room: Room) -> None:
        """Begin without any point; `room` says how many there may be."""
        room.take_in()
        self._room = room
        self._steps = array("q")
        self._values = array("d")

    def add(self, step: int, value: float) -> None:
        """Take the next value."""
        self._steps.append(step)
        self._values.append(value)
        if len(self._steps) > self._room.gathered:
            self._thin()

    def points(self) -> Points:
        """What is left of the curve: at most three points for each stretch."""
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
        """By step: threads, and tracers that begin anew, may have come back to an earlier one."""
        steps = self._steps
        if any(map(int.__gt__, steps, steps[1:])):
            order = sorted(range(len(steps)), key=steps.__getitem__)
            self._values = array("d", (self._values[place] for place in order))
            self._steps = array("q", (steps[place] for place in order))


class Curves(Generic[K]):
    """Curves by what they are of."""

    def __init__(self, room: Room, most: int) -> None:
        """Begin with none; of more than `most` the first ones are kept."""
        self.left_out = 0
        self._room = room
        self._most = most
        self._curves: dict[K, Curve] = {}

    def add(self, key: K, step: int, value: float) -> None:
        """Take the next value of the curve of `key`."""
        curve = self._curves.get(key)
        if curve is None:
            if len(self._curves) >= self._most:
                self.left_out += 1
                return
            curve = self._curves[key] = Curve(self._room)
        curve.add(step, value)

    def points(self) -> dict[K, Points]:
        """What is left of each curve."""
        return {key: curve.points() for key, curve in self._curves.items()}


def _extremes(steps: Sequence[int], values: Sequence[float], width: int) -> Iterator[int]:
    """Where, in each stretch of so many steps, the lowest, the highest and the first value that is not finite stand."""
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
