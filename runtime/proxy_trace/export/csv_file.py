"""Exports a run as one CSV file: a row per record, with the columns of the Parquet dataset, the partition's first."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any, Final

import msgspec

from proxy_trace.export.columns import TableMaker, Type, all_columns
from proxy_trace.export.output import whole_or_nothing
from proxy_trace.export.result import ExportCounter, Exported
from proxy_wrapper.events import as_number

if TYPE_CHECKING:
    from pathlib import Path

    from proxy_trace.reading.report import Report
    from proxy_trace.reading.trace import Trace
    from proxy_wrapper.events import Number

_BATCH: Final = 1 << 13
_OF_THE_FILE: Final = ("run", "rank", "process")
_AS_JSON: Final = frozenset({Type.TEXTS, Type.INTS, Type.NUMBERS, Type.TEXT_MAP, Type.INT_MAP})


def export_csv(trace: Trace, target: Path, *, force: bool = False, report: Report | None = None) -> Exported:
    """Write all files of `trace` to the file `target`, one after another. Memory use is bounded.

    Lists and maps are JSON, booleans `true` and `false`, NaN and infinities `nan`, `inf` and `-inf`. Fields that a kind
    lacks are empty.

    Args:
        trace: the run.
        target: the file.
        force: whether to replace an existing file.
        report: called repeatedly with the number of bytes read since the previous call.

    Raises:
        OutputExistsError: if the file exists, unless `force`.
        OutputIsFolderError: if `target` is a folder.
        UnwritableFileError: if writing fails.
        UnreadableFileError: if reading fails.
    """
    counter = ExportCounter(report)
    columns = all_columns()
    as_json = {column.name for column in columns if column.type in _AS_JSON}
    numbers = {column.name for column in columns if column.type is Type.NUMBERS}
    booleans = {column.name for column in columns if column.type is Type.BOOL}
    encode = msgspec.json.Encoder().encode

    def cells(name: str, values: list[Any]) -> list[Any]:
        if name in numbers:
            values = [None if several is None else [_spelled(value) for value in several] for several in values]
        if name in as_json:
            return [None if value is None else encode(value).decode() for value in values]
        if name in booleans:
            return [None if value is None else str(value).lower() for value in values]
        return values

    with whole_or_nothing(target, force=force) as aside:
        # A path may contain any bytes.
        with aside.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow([*_OF_THE_FILE, *(column.name for column in columns)])
            for file in trace.files:
                of_the_file = [file.run.run, file.run.rank, file.path.stem]
                maker = TableMaker(file.names())
                for events in counter.batches(file, _BATCH):
                    table = maker.columns(events)
                    rows = zip(*(cells(name, values) for name, values in table.items()), strict=True)
                    writer.writerows([*of_the_file, *row] for row in rows)
        size_bytes = aside.stat().st_size
    return counter.exported(target, size_bytes)


def _spelled(value: float | None) -> Number | None:
    """A number in a list, as JSON can represent it: NaN and infinities by name."""
    return None if value is None else as_number(value)
