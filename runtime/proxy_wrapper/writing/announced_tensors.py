"""Tracks which tensors a text log has announced, by their numbers in the records."""

from __future__ import annotations

from typing import Final

_REMEMBERED: Final = 1 << 16
"""How many skipped numbers are remembered at least. Older ones count as announced."""


class AnnouncedTensors:
    """Tells whether a tensor is mentioned for the first time.

    Numbers are assigned in ascending order, so nearly all numbers below the highest so far have been announced. Only
    the exceptions are stored, and only for a while, so memory does not grow with the run.
    """

    def __init__(self) -> None:
        self._highest = 0
        self._passed_over: dict[int, None] = {}

    def announce(self, number: int) -> bool:
        """Note that the tensor with this number is mentioned, and return whether this is the first time."""
        if number <= self._highest:
            if number in self._passed_over:
                del self._passed_over[number]
                return True
            return False
        passed_over = self._passed_over
        passed_over.update(dict.fromkeys(range(max(self._highest + 1, number - _REMEMBERED), number)))
        if len(passed_over) > 2 * _REMEMBERED:  # All at once: finding the first key of a dict passes deleted ones.
            self._passed_over = dict.fromkeys(list(passed_over)[-_REMEMBERED:])
        self._highest = number
        return True
