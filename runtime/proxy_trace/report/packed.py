"""Packs curves for a page, as arrays of numbers that compress well and lossless."""

from __future__ import annotations

import gzip
import sys
from array import array
from base64 import b64encode
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from proxy_trace.report.curves import Points


class _Part(NamedTuple):
    """An array in the packed bytes: its JavaScript type and its length."""

    type: str
    length: int


class PackedCurves:
    """Curves in sequence, each preceded by three numbers: the series, the process and the kind.

    Values that a float32 holds exactly (most of a trace) take four bytes, others eight. Steps are stored as
    differences. The bytes of each array are grouped by their position in the number, so that the similar signs and
    exponents are adjacent.
    """

    def __init__(self) -> None:
        """Start empty."""
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
        """The arrays in the packed bytes, in order."""
        return [
            _Part("Int32Array", len(self._index)),
            _Part("Float64Array", len(self._steps)),
            _Part("Float32Array", len(self._narrow)),
            _Part("Float64Array", len(self._wide)),
        ]

    def text(self) -> str:
        """Everything, compressed, as base64."""
        packed = bytearray()
        for numbers in (self._index, array("d", self._steps), self._narrow, self._wide):
            if sys.byteorder == "big":
                numbers.byteswap()
            data = memoryview(numbers).cast("B")
            for place in range(numbers.itemsize):
                packed += data[place :: numbers.itemsize].tobytes()
        return compressed(bytes(packed))


def compressed(data: bytes) -> str:
    """Data in gzip format, as base64. The result does not depend on the time."""
    return b64encode(gzip.compress(data, 6, mtime=0)).decode("ascii")
