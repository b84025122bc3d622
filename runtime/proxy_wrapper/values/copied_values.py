"""Statistics of what calls give: of small tensors from copies, together, since there each call into torch costs most.

One small tensor takes 40 us, one of many 4 us; to copy it takes one. Its values may change right after the call, so the
copy is made at once, and nobody waits for its numbers: the thread that writes the trace asks for them, or another call,
once there are many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from proxy_wrapper.events import Statistics
from proxy_wrapper.values.describe import PLAIN
from proxy_wrapper.values.given_values import statistics_of, statistics_of_readable
from proxy_wrapper.values.pending import Pending
from proxy_wrapper.values.statistics import MOST_DIMENSIONS, is_hosted, unobserved
from proxy_wrapper.values.torch_functions import clone, dimensions, numel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_wrapper.values.statistics import PendingOr

_SMALL: Final = 1 << 12
"""Up to this many elements a tensor is copied. Of larger ones several take hardly less time together than alone."""

_MOST: Final = 256
"""How many copies there are at most: with `_SMALL` elements of 8 bytes, 8 MB."""

_COPIED: Final = frozenset(
    {torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool}
)


class CopiedStatistics(Pending):
    """The statistics of a tensor of which there is a copy."""

    __slots__ = ("_all", "copy", "statistics")

    def __init__(self, copy: torch.Tensor, of: CopiedValues) -> None:
        self._all = of
        self.copy: torch.Tensor | None = copy
        self.statistics: PendingOr = None

    def resolve(self) -> Statistics | None:
        """The statistics; None if torch does not sum such a tensor up."""
        if self.copy is not None:
            self._all.sum_up(self)
        return self.statistics if isinstance(self.statistics, Statistics) else None


class CopiedValues:
    """Gives statistics of what calls give. No lock: what two threads sum up at once gets the same numbers twice."""

    def __init__(self) -> None:
        self._waiting: list[CopiedStatistics] = []

    def statistics_of(self, tensors: Sequence[torch.Tensor]) -> tuple[PendingOr | CopiedStatistics, ...]:
        """Statistics of each tensor, or what will tell them; None for one without values that can be read."""
        if not any(map(_is_small, tensors)):
            return statistics_of(tensors)
        found: list[PendingOr | CopiedStatistics] = [None] * len(tensors)
        with unobserved() as readable:
            if not readable:
                return tuple(found)
            others: list[int] = []
            for position, tensor in enumerate(tensors):
                if _is_small(tensor):
                    found[position] = mine = CopiedStatistics(clone(tensor), self)
                    self._waiting.append(mine)
                else:
                    others.append(position)
            numbers = statistics_of_readable([tensors[position] for position in others]) if others else ()
            for position, statistics in zip(others, numbers, strict=True):
                found[position] = statistics
        if len(self._waiting) >= _MOST:
            self.sum_up()
        return tuple(found)

    def sum_up(self, *first: CopiedStatistics) -> None:
        """Compute the statistics of all copies, and let go of these; also of the `first`, who may be in no list."""
        waiting, self._waiting = self._waiting, []
        copies = {each: copy for each in (*first, *waiting) if (copy := each.copy) is not None}
        with unobserved():
            numbers = statistics_of_readable(list(copies.values()))
        for each, statistics in zip(copies, numbers, strict=True):
            each.statistics = statistics
            each.copy = None  # Only now: another thread takes it from here that the numbers are there.


def _is_small(tensor: torch.Tensor) -> bool:
    """Whether a tensor is an ordinary one on the CPU that is copied faster than it is summed up."""
    return (
        type(tensor) in PLAIN
        and tensor.dtype in _COPIED
        and is_hosted(tensor)
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and dimensions(tensor) <= MOST_DIMENSIONS
        and numel(tensor) <= _SMALL
    )
