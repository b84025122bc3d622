"""Finds the call that created a node of autograd's graph."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxy_views.profile.calls import Call


class Timeline:
    """The calls, ordered by autograd's node numbers.

    Autograd creates the node of an operation before it runs it, so a node belongs to the first call after it. Nodes for
    views that were changed in place are the exception: they are created after the call.
    """

    def __init__(self, start: int) -> None:
        """Begin without calls; nodes up to the number `start` are older than any call."""
        self._ends: list[int] = []  # The number of the first node after the call.
        self._calls: list[Call] = []
        self._start = self.last = start

    def note(self, end: int, call: Call) -> None:
        """Assign all nodes since the last call, up to the number `end`, to `call`."""
        if end > self.last:
            self._ends.append(end)
            self._calls.append(call)
            self.last = end

    def owner(self, node: Any) -> Call | None:
        """The call that created `node`; None if it was created before, or on another thread."""
        number = node._sequence_nr()
        place = bisect_right(self._ends, number)
        if type(node).__name__ == "CopySlices":
            place -= 1
        if number < self._start or not 0 <= place < len(self._calls):
            return None
        return self._calls[place]
