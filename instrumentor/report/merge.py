"""Merges reports, such as those of a run's shards on different machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.errors import ReportError
from instrumentor.report import json_report
from instrumentor.report.kinds import write_reports

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from instrumentor.report.record import FileRecord


def merge_reports(paths: Sequence[str], targets: Sequence[str]) -> None:
    """Write the files of several JSON reports as one report, or several of any kind, in the order of their paths.

    Args:
        paths: the reports to read.
        targets: the reports to write.

    Raises:
        ReportError: a report cannot be read, or two of them contain the same file.
    """
    found: dict[str, FileRecord] = {}
    origins: dict[str, str] = {}
    for path in paths:
        for record in json_report.read(path).files:
            if record.path in found:
                raise ReportError(
                    f"contains {record.path}, and so does {origins[record.path]}; merge the shards of a single run",
                    path=path,
                )
            found[record.path] = record
            origins[record.path] = path

    def records() -> Iterator[FileRecord]:
        # In the order of a walk: each folder's entries by name.
        return (found[path] for path in sorted(found, key=lambda each: each.split("/")))

    write_reports(records, targets)
