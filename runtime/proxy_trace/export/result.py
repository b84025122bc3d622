"""What an export did, and what it counts on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proxy_trace.reading.report import Report
    from proxy_trace.reading.trace import TraceFile
    from proxy_wrapper.events import AnyEvent


_BATCH_BYTES: Final = 1 << 26
"""How long the lines of a batch are at most, whatever is in them."""


class Exported(NamedTuple):
    """What was written.

    Attributes:
        path: where.
        records: how many records.
        size_bytes: in how many bytes.
        left_out: how many lines of the trace could not be read.
        files_before: of how many files an earlier export, which broke off, had written the records.
    """

    path: Path
    records: int
    size_bytes: int
    left_out: int
    files_before: int = 0


class ExportCounter:
    """Gives out the records of a run's files in batches, and counts them.

    Attributes:
        records: how many have been given out.
        left_out: how many lines could not be read, in the files that are done.
    """

    def __init__(self, report: Report | None = None) -> None:
        """Count nothing yet.

        Args:
            report: called now and then with the number of bytes read since the last time.
        """
        self.records = 0
        self.left_out = 0
        self._report = report

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
                self._count(batch, reading.bytes_read - began)
                began = reading.bytes_read
                batch = []
        if batch:
            yield batch
        self._count(batch, reading.bytes_read - began)
        self.left_out += reading.left_out

    def exported(self, path: Path, size_bytes: int) -> Exported:
        """The result, once everything is written."""
        return Exported(path, self.records, size_bytes, self.left_out)

    def _count(self, batch: list[AnyEvent], bytes_read: int) -> None:
        self.records += len(batch)
        if self._report is not None:
            self._report(bytes_read)
