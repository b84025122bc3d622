"""Which call a node of autograd's graph was made by."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxy_views.profile.calls import Call


class Timeline:
    """Calls by the numbers that autograd counts its nodes with.

    Autograd makes the node of an operation before it runs it. So a node belongs to the first call behind it. The one
    exception are nodes for views that were changed in place: they are made behind the call.
    """

    def __init__(self, start: int) -> None:
        """Know no call, and that nodes up to the number `start` are older than all."""
        self._ends: list[int] = []  # The number of the first node that is behind the call.
        self._calls: list[Call] = []
        self._start = self.last = start

    def note(self, end: int, call: Call) -> None:
        """All nodes since the last call, up to the number `end`, are of `call`."""
        if end > self.last:
            self._ends.append(end)
            self._calls.append(call)
            self.last = end

    def owner(self, node: Any) -> Call | None:
        """The call that made `node`; None if it was made before, or on another thread."""
        number = node._sequence_nr()
        place = bisect_right(self._ends, number)
        if type(node).__name__ == "CopySlices":
            place -= 1
        if number < self._start or not 0 <= place < len(self._calls):
            return None
        return self._calls[place]
