"""A cache of parsed project files, for the next script that imports them."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.resolve.unit import Unit

# The limit in bytes of source. A tree with its index takes about 45 times the memory of its source.
MAX_BYTES = 1_500_000


class UnitCache:
    """Caches parsed files by their path, relative to the script, and their content.

    Scripts in one folder share most of their imports. Nothing in a unit depends on the script that imports it.

    Attributes:
        parsed_bytes: the amount of source parsed so far.
        dropped_bytes: the amount of source dropped from the cache.

    Args:
        max_bytes: the limit in bytes of source; the least recently used files are dropped first.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[tuple[str, bytes], Unit | None] = OrderedDict()
        self._dropped: list[Unit] = []
        self._held_bytes = 0
        self.parsed_bytes = self.dropped_bytes = 0

    def find(self, name: str, content: bytes, parse: Callable[[], Unit | None]) -> Unit | None:
        """The unit of a file, parsed if it is not cached; None if the file cannot be parsed."""
        key = (name, content)
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        unit = self._held[key] = parse()
        self.parsed_bytes += len(content)
        self._held_bytes += len(content)
        while self._held_bytes > self._max_bytes and len(self._held) > 1:
            (_, oldest), dropped = self._held.popitem(last=False)
            self._held_bytes -= len(oldest)
            self.dropped_bytes += len(oldest)
            if dropped is not None:
                self._dropped.append(dropped)
        return unit

    def take_apart_dropped(self) -> None:
        """Release what dropped units refer to. Only to be called while no script is being analysed."""
        while self._dropped:
            self._dropped.pop().take_apart()
