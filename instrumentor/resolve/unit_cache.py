"""The files of a project that were parsed last, for the next script that asks for them."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.resolve.units import Unit

# Source bytes whose trees are kept; with what is indexed of it, a tree takes some 45 times its source.
MAX_BYTES = 1_500_000


class UnitCache:
    """Keeps parsed files by their path, relative to the script, and their content.

    Scripts of one folder share most of what they import. Nothing in a unit depends on the script that asks for it.

    Attributes:
        parsed_bytes: how much source was parsed so far.
        dropped_bytes: how much of it is not kept any more.

    Args:
        max_bytes: how much source is kept parsed; what was asked for longest ago goes first.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[tuple[str, bytes], Unit | None] = OrderedDict()
        self._dropped: list[Unit] = []
        self._held_bytes = 0
        self.parsed_bytes = self.dropped_bytes = 0

    def find(self, name: str, content: bytes, parse: Callable[[], Unit | None]) -> Unit | None:
        """The unit of a file, parsed if it is not there; None where it cannot be parsed."""
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
        """Let go of what units refer to that are not kept any more; to be called where no script is looked at."""
        while self._dropped:
            self._dropped.pop().take_apart()
