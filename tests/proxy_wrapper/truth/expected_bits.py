"""What `statistics.bits` must be, by NumPy, from the definition at the top of `proxy_wrapper.values.fingerprint`."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np

Words: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"

_GOLDEN = 0x9E3779B97F4A7C15
_SHORT = 65536
_COLUMNS = (2039, 2029)


def expected_bits(*parts: bytes) -> str:
    """The fingerprint of a tensor whose elements, in order, have these bytes: 16 hexadecimal digits.

    A sparse tensor has two parts: its indices, and its values.
    """
    weighted = size = 0
    for part in parts:
        weighted = weighted * _GOLDEN + _weighted_sum(part)
        size = size * _GOLDEN + len(part)
    return f"{(weighted + size * _GOLDEN) % 2**64:016x}"


def _weighted_sum(contents: bytes) -> int:
    padded = contents + bytes(-len(contents) % 4)
    terms = _halves(padded)
    if len(contents) > _SHORT:
        sequences = [_column_sums(padded[4 * skipped :], columns) for skipped, columns in enumerate(_COLUMNS)]
        terms = np.concatenate([*sequences, terms[-1:]])
    return sum(int(term) * weight for term, weight in zip(terms, _weights(), strict=False))


def _halves(contents: bytes) -> Words:
    """The 32-bit words, each with its sign carried on to 64 bits."""
    return np.frombuffer(contents, dtype="<i4").astype(np.int64).view(np.uint64)


def _column_sums(contents: bytes, columns: int) -> Words:
    """The sums of the columns in which the whole 64-bit words lie, and then the words that fill no row."""
    words = np.frombuffer(contents[: len(contents) // 8 * 8], dtype="<u8").astype(np.uint64)
    in_rows = len(words) // columns * columns
    sums = words[:in_rows].reshape(-1, columns).sum(axis=0, dtype=np.uint64)
    return np.concatenate([sums, words[in_rows:]])


@cache
def _weights() -> list[int]:
    """What splitmix64 gives from the seed 0 on, made odd."""
    numbers = []
    for place in range(1, _SHORT // 4 + 1):
        number = place * _GOLDEN % 2**64
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            number = (number ^ number >> shift) * factor % 2**64
        numbers.append((number ^ number >> 31) | 1)
    return numbers
