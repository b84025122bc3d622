"""The interface of all trace formats to the writer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_wrapper.events import AnyEvent


class Sink(Protocol):
    """Stores events. Called from one thread at a time. May raise `OSError`."""

    def write(self, events: Sequence[AnyEvent]) -> None:
        """Store `events`, so that they survive if the process is killed. If this raises, none are stored."""

    def refresh(self) -> None:
        """Update the rank of the process, if it has become known."""

    def size(self) -> int:
        """The number of bytes written."""

    def discard(self) -> None:
        """Close the file and remove it, unless other processes may have written to it too."""

    def close(self) -> None:
        """Close the file without writing anything."""
