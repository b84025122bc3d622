"""When to collect cyclic garbage: between scripts, and mostly in the young generation."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from instrumentor.resolve.libraries import Libraries

# Source bytes to process before young cyclic garbage is collected. A script leaves some ten objects; one that failed
# leaves everything made of it, some 60 times its source.
_COLLECT_AFTER_BYTES = 500_000
# Source bytes that the caches must have dropped before a full collection.
_COLLECT_ALL_AFTER_BYTES = 600_000


class GarbageCollection:
    """Collects the garbage of scripts while Python's own collection is off.

    Collecting after every few hundred objects would cost a quarter of the time. The results of an analysis are taken
    apart and freed at once, as are files that the caches drop. Whatever else a script leaves is young. The contents of
    the caches are old after the first collection. They are examined again only when the caches have dropped some of
    them; otherwise each collection would cost as much as everything that is kept.

    Args:
        libraries: the caches.
    """

    def __init__(self, libraries: Libraries) -> None:
        self._libraries = libraries
        self._scripts_bytes = 0
        self._collected_bytes = libraries.parsed_bytes
        self._dropped_bytes = libraries.dropped_bytes

    def after_script(self, size: int) -> None:
        """Collect the garbage of scripts if enough has accumulated; the last script had `size` bytes."""
        self._libraries.units.take_apart_dropped()
        self._scripts_bytes += size
        # Files of its project that no earlier script imported were parsed, too.
        parsed = self._scripts_bytes + self._libraries.parsed_bytes
        if parsed <= self._collected_bytes + _COLLECT_AFTER_BYTES:
            return
        self._collected_bytes = parsed
        if self._libraries.dropped_bytes > self._dropped_bytes + _COLLECT_ALL_AFTER_BYTES:
            self._dropped_bytes = self._libraries.dropped_bytes
            gc.collect()
        else:
            gc.collect(1)


@contextmanager
def collecting_between_scripts(libraries: Libraries) -> Iterator[GarbageCollection]:
    """Turn Python's automatic garbage collection off for a while."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield GarbageCollection(libraries)
    finally:
        if was_enabled:
            gc.enable()
