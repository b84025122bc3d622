"""What an export did, and what it counts on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from proxy_trace.trace import TraceFile
    from proxy_wrapper.events import AnyEvent


_BATCH_BYTES: Final = 1 << 26
"""How long the lines of a batch are at most, whatever is in them."""


class Exported(NamedTuple):
    """What was written: `left_out` are lines of the trace that could not be read."""

    path: Path
    records: int
    size_bytes: int
    left_out: int


class ExportCounter:
    """Gives out the records of a run's files in batches, and counts them."""

    def __init__(self, on_progress: Callable[[int], None] | None = None) -> None:
        self._on_progress = on_progress
        self._bytes_done = 0
        self._records = 0
        self._left_out = 0

    def batches(self, file: TraceFile, size: int) -> Iterator[list[AnyEvent]]:
        """Yield all records of `file`, at most `size` at a time.

        Raises:
            UnreadableFileError: if the file system refuses.
        """
        reading = file.read()
        batch: list[AnyEvent] = []
        began = 0
        for event in reading:
            batch.append(event)
            if len(batch) == size or reading.bytes_read - began > _BATCH_BYTES:
                yield batch
                began = reading.bytes_read
                self._count(batch, began)
                batch = []
        if batch:
            yield batch
        self._count(batch, reading.bytes_read)
        self._bytes_done += reading.bytes_read
        self._left_out += reading.left_out

    def exported(self, path: Path, size_bytes: int) -> Exported:
        """The result, once everything is written."""
        return Exported(path, self._records, size_bytes, self._left_out)

    def _count(self, batch: list[AnyEvent], bytes_read: int) -> None:
        self._records += len(batch)
        if self._on_progress is not None:
            self._on_progress(self._bytes_done + bytes_read)
