"""Packs curves for a page: arrays of numbers that compress well, and come back exactly as they are."""

from __future__ import annotations

import gzip
import sys
from array import array
from base64 import b64encode
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from proxy_trace.report.curves import Points


class _Part(NamedTuple):
    """An array in the packed bytes: its type as JavaScript calls it, and how many numbers it has."""

    type: str
    length: int


class PackedCurves:
    """Curves one behind the other, each under three numbers: of which series, of which process, and of what.

    Values that a float32 holds exactly, as most of a trace are, take four bytes, others eight. Steps stand as
    differences. The bytes of each array are sorted by their place in the number: signs and exponents, which are much
    the same throughout, come to stand together.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._index = array("i")
        self._steps = array("q")
        self._narrow = array("f")
        self._wide = array("d")

    def add(self, series: int, process: int, kind: int, points: Points) -> None:
        """Add a curve."""
        narrow = array("f", points.values)
        is_narrow = all(one == other or one != one for one, other in zip(narrow, points.values, strict=True))
        self._index.extend((series, process, kind, int(not is_narrow), len(points.values)))
        before = 0
        for step in points.steps:
            self._steps.append(step - before)
            before = step
        if is_narrow:
            self._narrow.extend(narrow)
        else:
            self._wide.extend(points.values)

    def parts(self) -> list[_Part]:
        """What stands in the packed bytes, in order."""
        return [
            _Part("Int32Array", len(self._index)),
            _Part("Float64Array", len(self._steps)),
            _Part("Float32Array", len(self._narrow)),
            _Part("Float64Array", len(self._wide)),
        ]

    def text(self) -> str:
        """All of it, compressed, as base64."""
        packed = bytearray()
        for numbers in (self._index, array("d", self._steps), self._narrow, self._wide):
            if sys.byteorder == "big":
                numbers.byteswap()
            data = memoryview(numbers).cast("B")
            for place in range(numbers.itemsize):
                packed += data[place :: numbers.itemsize].tobytes()
        return compressed(bytes(packed))


def compressed(data: bytes) -> str:
    """Data in gzip's format, as base64; the same at any time."""
    return b64encode(gzip.compress(data, 6, mtime=0)).decode("ascii")
