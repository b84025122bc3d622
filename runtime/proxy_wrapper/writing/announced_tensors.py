"""Which tensors a text log has announced, by the numbers that they have in the records."""

from __future__ import annotations

from typing import Final

_REMEMBERED: Final = 1 << 16
"""Of so many numbers that were passed over it is known that they were; older ones count as announced."""


class AnnouncedTensors:
    """Tells whether a tensor is mentioned for the first time.

    Numbers are given in ascending order, so that nearly all that was announced lies below the highest so far: memory
    does not grow with the run. What lies below and was not, such as what only went into calls, is kept for a while.
    """

    def __init__(self) -> None:
        self._highest = 0
        self._passed_over: dict[int, None] = {}

    def announce(self, number: int) -> bool:
        """Note that the tensor of this number is mentioned; whether it is the first time."""
        if number <= self._highest:
            if number in self._passed_over:
                del self._passed_over[number]
                return True
            return False
        passed_over = self._passed_over
        passed_over.update(dict.fromkeys(range(max(self._highest + 1, number - _REMEMBERED), number)))
        while len(passed_over) > _REMEMBERED:
            del passed_over[next(iter(passed_over))]
        self._highest = number
        return True
