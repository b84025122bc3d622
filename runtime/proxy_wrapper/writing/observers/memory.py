"""Keeps events in a list, for tests and other readers in the same process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy_wrapper.events import AnyEvent


class MemoryObserver:
    """Keeps every event in `events`, in order."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []

    def observe(self, event: AnyEvent) -> None:
        """Keep `event`."""
        self.events.append(event)

    def flush(self) -> None:
        """Do nothing, because every event is already stored."""

    def close(self) -> None:
        """Do nothing. The events remain."""
