"""When to look for cyclic garbage: between scripts, and mostly among what is new."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from instrumentor.resolve.libraries import Libraries

# Source bytes that are looked at before what refers to itself among what is new is collected: of each script some ten
# objects, of one that failed all that was made of it, some 60 times its source.
_COLLECT_AFTER_BYTES = 500_000
# Source bytes of which the caches have let go before all there is gets looked through.
_COLLECT_ALL_AFTER_BYTES = 600_000


class GarbageCollection:
    """Collects what scripts leave behind, while Python itself does not.

    Looking for garbage anew with every few hundred objects costs a quarter of the time. What an analysis made is taken
    apart and freed at once, as are the files that the caches let go of. What else is left of a script is new. What the
    caches keep is old after the first look, and is looked at once more only when they have let go of some of it;
    otherwise each look would cost as much as all that is kept.

    Args:
        libraries: the caches.
    """

    def __init__(self, libraries: Libraries) -> None:
        self._libraries = libraries
        self._scripts_bytes = 0
        self._collected_bytes = libraries.parsed_bytes
        self._dropped_bytes = libraries.dropped_bytes

    def after_script(self, size: int) -> None:
        """Collect what scripts left behind, if it is enough by now; the last one was of `size` bytes."""
        self._libraries.units.take_apart_dropped()
        self._scripts_bytes += size
        # Its neighbours were parsed too, as far as they are its project's and no script before led to them.
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
    """Keep Python from looking for garbage by itself."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield GarbageCollection(libraries)
    finally:
        if was_enabled:
            gc.enable()
