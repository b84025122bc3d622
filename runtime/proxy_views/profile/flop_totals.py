"""FLOPs of both passes."""

from __future__ import annotations

from typing import NamedTuple


class FlopTotals(NamedTuple):
    """FLOPs of the forward and of the backward pass."""

    forward: int
    backward: int
