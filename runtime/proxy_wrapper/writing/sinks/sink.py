"""What every form of a trace offers to the writer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_wrapper.events import AnyEvent


class Sink(Protocol):
    """Keeps events. Called from one thread at a time; may raise `OSError`."""

    def write(self, events: Sequence[AnyEvent]) -> None:
        """Keep `events`, so that they survive if the process is killed; all of them, or none if it raises."""

    def refresh(self) -> None:
        """Take note of the rank of the process, if that has become known."""

    def size(self) -> int:
        """How many bytes have been kept."""

    def discard(self) -> None:
        """Let go of the file, and remove it, unless others may have written to it, too."""

    def close(self) -> None:
        """Let go of the file. Nothing is written."""
