"""Tells whether a table was computed from positions in half precision, by neighbouring rows that are equal.

The type `bfloat16` holds 256, 258 and 260, but neither 257, which becomes 256, nor 259, which becomes 260; `float16`
does so from 2,048 on. A table of sines of such positions repeats the rows, whatever its own type is.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.values.statistics import unobserved
from proxy_wrapper.values.torch_functions import is_equal, is_floating_point, select

if TYPE_CHECKING:
    import torch

_FIRST: Final = (2048, 256)
"""The numbers from which on half of the numbers are rounded: of float16, and of bfloat16."""


class RepeatedRows(NamedTuple):
    """The rows of a table: how many there are, and up to where neighbours differ."""

    total: int
    exact: int


def repeated_rows(table: torch.Tensor) -> RepeatedRows | None:
    """How the rows of a table on the CPU, along any dimension, repeat each other; None if they do not."""
    sizes = tuple(table.shape)
    if table.device.type != "cpu" or not is_floating_point(table) or max(sizes, default=0) <= _FIRST[-1] + 6:
        return None
    with unobserved() as readable:
        for dim, size in enumerate(sizes):
            for first in _FIRST if readable else ():
                if size > first + 6 and _repeats(table, dim, first):
                    return RepeatedRows(size, first)
    return None


def _repeats(table: torch.Tensor, dim: int, first: int) -> bool:
    """Whether the seven rows from `first - 1` on are those of 255, 256, 256, 258, 260, 260 and 260."""
    rows = [select(table, dim, first - 1 + place) for place in range(7)]
    equal = [bool(is_equal(one, other)) for one, other in pairwise(rows)]
    return equal == [False, True, False, False, True, True]
