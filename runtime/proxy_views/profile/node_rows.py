"""The rows of a profile that belong to the nodes of a graph of the same run."""

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
    """Knows what was called in which places. FLOPs are counted in the way "corrected"."""

    def __init__(self, calls: Sequence[Call], sizes: StateSizes) -> None:
        """Take what was seen of a run that has ended."""
        self._calls = calls
        memory = Memory(calls, sizes.parameters | sizes.buffers)
        self._builder = RowBuilder(calls, (), {}, sizes, memory, "corrected", None)
        self._in_place: dict[int, list[int]] = {}
        for number, call in enumerate(calls):
            for place in call.places:
                self._in_place.setdefault(place, []).append(number)

    def row(self, name: str, type_: str, module: str | None, places: Collection[int]) -> ProfileRow | None:
        """What was called in `places`; None if a registered function stands for it that is called elsewhere, too.

        Args:
            name: of the node.
            type_: what it calls.
            module: the module that it is in.
            places: the numbers that `place_now` gave meanwhile.
        """
        numbers = sorted({number for place in places for number in self._in_place.get(place, ())})
        if any(not set(self._calls[number].places) <= set(places) for number in numbers):
            return None
        return self._builder.of_node(name, type_, module, numbers)
