"""Packed numbers come back as they were, to the bit."""

from __future__ import annotations

import gzip
import math
import struct
from array import array
from base64 import b64decode

import pytest

from proxy_trace.report.curves import Points
from proxy_trace.report.packed import PackedCurves

FORMATS = {"Int32Array": "i", "Float32Array": "f", "Float64Array": "d"}


def unpacked(packed: PackedCurves) -> list[list[float]]:
    """The arrays, as the script of the page reads them."""
    data = gzip.decompress(b64decode(packed.text()))
    found = []
    for type_, length in packed.parts():
        size = struct.calcsize(FORMATS[type_])
        planes, data = data[: size * length], data[size * length :]
        whole = bytes(planes[place * length + number] for number in range(length) for place in range(size))
        found.append(list(struct.unpack(f"<{length}{FORMATS[type_]}", whole)))
    assert data == b""
    return found


@pytest.mark.parametrize(
    ("values", "is_wide"),
    [
        ([0.5, -3.25, math.inf], False),
        ([0.5, 0.1], True),
        ([1e300], True),
        ([math.nan, 1.0], False),
        ([], False),
    ],
)
def test_numbers_take_eight_bytes_only_where_they_need_them(values: list[float], is_wide: bool) -> None:
    packed = PackedCurves()
    packed.add(7, 1, 3, Points(array("q", [2**40 + number for number in range(len(values))]), array("d", values)))
    index, steps, narrow, wide = unpacked(packed)
    assert index == [7, 1, 3, int(is_wide), len(values)]
    assert steps == [2**40, *[1] * (len(values) - 1)][: len(values)]
    assert repr(wide if is_wide else narrow) == repr(values)
    assert (narrow if is_wide else wide) == []


def test_curves_follow_each_other() -> None:
    packed = PackedCurves()
    for series in range(3):
        packed.add(series, 0, 0, Points(array("q", [-1, 5, 5]), array("d", [series, 0.1 * series, 2.0])))
    index, steps, narrow, wide = unpacked(packed)
    assert index[3::5] == [0, 1, 1]
    assert steps == [-1, 6, 0] * 3
    assert (narrow, wide) == ([0.0, 0.0, 2.0], [1.0, 0.1, 2.0, 2.0, 0.2, 2.0])
