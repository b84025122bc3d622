"""The result of an export, and the counter that produces it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proxy_trace.reading.report import Report
    from proxy_trace.reading.trace import TraceFile
    from proxy_wrapper.events import AnyEvent


_BATCH_BYTES: Final = 1 << 26
"""The maximum total length of the lines in a batch."""


class Exported(NamedTuple):
    """The result of an export.

    Attributes:
        path: what was written.
        records: the number of records.
        size_bytes: its size.
        left_out: the number of lines of the trace that could not be read.
        files_before: the number of files whose records an earlier, interrupted export had written.
    """

    path: Path
    records: int
    size_bytes: int
    left_out: int
    files_before: int = 0


class ExportCounter:
    """Yields the records of a run's files in batches, and counts them.

    Attributes:
        records: the number of records yielded.
        left_out: the number of unreadable lines in finished files.
    """

    def __init__(self, report: Report | None = None) -> None:
        """Start with zero.

        Args:
            report: called repeatedly with the number of bytes read since the previous call.
        """
        self.records = 0
        self.left_out = 0
        self._report = report

    def batches(self, file: TraceFile, size: int) -> Iterator[list[AnyEvent]]:
        """Yield all records of `file`, at most `size` at a time.

        Raises:
            UnreadableFileError: if the file cannot be read.
        """
        reading = file.read()
        batch: list[AnyEvent] = []
        began = 0
        for event in reading:
            batch.append(event)
            if len(batch) == size or reading.bytes_read - began > _BATCH_BYTES:
                yield batch
                self._count(batch, reading.bytes_read - began)
                began = reading.bytes_read
                batch = []
        if batch:
            yield batch
        self._count(batch, reading.bytes_read - began)
        self.left_out += reading.left_out

    def exported(self, path: Path, size_bytes: int) -> Exported:
        """The result, after everything is written."""
        return Exported(path, self.records, size_bytes, self.left_out)

    def _count(self, batch: list[AnyEvent], bytes_read: int) -> None:
        self.records += len(batch)
        if self._report is not None:
            self._report(bytes_read)
