"""A cache of the outlines of project files, for the next script of a batch."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING

from instrumentor.resolve.facts_cache import FactsCache
from instrumentor.resolve.outline import Outline, OutlinedUnit, outline_of, outlines_version, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from instrumentor.resolve.unit import Unit
    from instrumentor.resolve.unit_cache import UnitCache

# The limit in bytes of source. Outlines take about as much memory as their source.
MAX_BYTES = 12_000_000


class OutlineCache:
    """Replaces a cache of parsed files where outlines suffice; a `UnitFinder`.

    Attributes:
        dropped_bytes: the amount of source whose outlines were dropped.

    Args:
        units: caches files that must be parsed.
        folder: the folder that stores outlines between runs; None to store none.
        max_bytes: the limit in bytes of source; the least recently used outlines are dropped first.
    """

    def __init__(self, units: UnitCache, folder: Path | None, max_bytes: int = MAX_BYTES) -> None:
        self._units = units
        self._disk = None if folder is None else FactsCache(folder, "outlines", outlines_version(), Outline)
        self._max_bytes = max_bytes
        self._held: OrderedDict[tuple[str, bytes], tuple[OutlinedUnit | None, int]] = OrderedDict()
        self._held_bytes = self.dropped_bytes = 0
        # By content alone, as one file has different paths for scripts in different folders.
        self._drawn: dict[bytes, Outline] = {}

    def find(self, name: str, content: bytes, parse: Callable[[], Unit | None]) -> Unit | None:
        """The outline of a file as a unit; None if the file cannot be parsed."""
        digest = hashlib.blake2b(content, digest_size=16).digest()
        key = (name, digest)
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key][0]
        outline = self._drawn.get(digest) or self._outline(name, content, parse)
        unit = None
        if outline is not None:
            self._drawn[digest] = outline
            unit = unit_of(outline, name, name.rpartition("/")[0])
        self._held[key] = unit, len(content)
        self._held_bytes += len(content)
        while self._held_bytes > self._max_bytes and len(self._held) > 1:
            (_, dropped), (_, size) = self._held.popitem(last=False)
            self._drawn.pop(dropped, None)
            self._held_bytes -= size
            self.dropped_bytes += size
        return unit

    def _outline(self, name: str, content: bytes, parse: Callable[[], Unit | None]) -> Outline | None:
        known = None if self._disk is None else self._disk.load(content)
        if known is not None:
            return known
        unit = self._units.find(name, content, parse)
        if unit is None:
            return None
        outline = outline_of(unit)
        if self._disk is not None:
            self._disk.store(content, outline)
        return outline
