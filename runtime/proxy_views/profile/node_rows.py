"""Profile rows for the nodes of a graph of the same run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_views.profile.memory import Memory
from proxy_views.profile.row_builder import RowBuilder

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from proxy_views.profile.calls import Call
    from proxy_views.profile.rows import ProfileRow
    from proxy_views.profile.state_sizes import StateSizes


class NodeRows:
    """Finds the calls made at given places. FLOPs are counted as "corrected"."""

    def __init__(self, calls: Sequence[Call], sizes: StateSizes) -> None:
        """Take the observations of a run that has ended."""
        self._calls = calls
        memory = Memory(calls, sizes.parameters | sizes.buffers)
        self._builder = RowBuilder(calls, (), {}, sizes, memory, "corrected", None)
        self._in_place: dict[int, list[int]] = {}
        for number, call in enumerate(calls):
            for place in call.places:
                self._in_place.setdefault(place, []).append(number)

    def row(self, name: str, type_: str, module: str | None, places: Collection[int]) -> ProfileRow | None:
        """The row of the calls at `places`; None if one is of a registered function that also has calls elsewhere.

        Args:
            name: the name of the node.
            type_: what the node calls.
            module: the module of the node.
            places: the numbers that `place_now` returned meanwhile.
        """
        numbers = sorted({number for place in places for number in self._in_place.get(place, ())})
        if any(not set(self._calls[number].places) <= set(places) for number in numbers):
            return None
        return self._builder.of_node(name, type_, module, numbers)
