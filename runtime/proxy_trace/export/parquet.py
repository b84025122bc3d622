"""Exports a run as a Parquet dataset, partitioned by run and rank: for DuckDB, Polars, Spark, pandas.

Files are compact: repeated texts are dictionary-encoded, times and ids delta-encoded, and statistics byte-split
(float32 values in float64 columns end in zeros); everything is compressed with zstd.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_trace.errors import MissingExtraError, UnreadableFileError
from proxy_trace.export.columns import TableMaker, Type, all_columns
from proxy_trace.export.result import ExportCounter, Exported
from proxy_trace.export.resumable_folder import part_of_folder, resumable_folder
from proxy_trace.reading.workers import Workers
from proxy_wrapper import __version__
from proxy_wrapper.events import FORMAT

if TYPE_CHECKING:
    from proxy_trace.export.columns import Column
    from proxy_trace.reading.report import Report
    from proxy_trace.reading.trace import Trace, TraceFile
    from proxy_wrapper.events import AnyEvent

ROW_GROUP: Final = 1 << 16
"""The number of records in a row group, which an export holds in memory at once."""

_SOURCE: Final = "proxy_trace.source"
_LEFT_OUT: Final = "proxy_trace.left_out"


class _Task(NamedTuple):
    """A file of a run, and the path of its table."""

    file: TraceFile
    path: Path


class _Written(NamedTuple):
    """The counts of a table; `was_there` if an interrupted export had written it."""

    records: int
    left_out: int
    was_there: bool


def export_parquet(trace: Trace, target: Path, *, force: bool = False, workers: Workers | None = None) -> Exported:
    """Write `trace` to `<target>/run=<run id>/rank=<rank>/<name of the trace file>.parquet`.

    The run is added to an existing dataset. An interrupted export of this run is resumed: tables of files that have not
    changed since are not written again. Memory use is bounded.

    Args:
        trace: the run.
        target: the folder of the dataset.
        force: whether to replace this run if the dataset has it.
        workers: writes the tables, one per file; if None, this process does.

    Raises:
        MissingExtraError: if pyarrow is not installed.
        OutputExistsError: if the dataset has this run, unless `force`.
        NotOurOutputError: if the temporary folder contains something that no export wrote.
        ExportRunningError: if another export of this run is in progress.
        UnwritableFileError: if writing fails.
        UnreadableFileError: if reading fails.
    """
    try:
        import pyarrow  # noqa: F401, ICN001  Imported first, so that the message below names the extra.
    except ImportError as error:
        raise MissingExtraError("Parquet", "pyarrow", "export") from error
    workers = workers or Workers()
    folder = target / f"run={trace.files[0].run.run}"
    parts = [Path(f"rank={file.run.rank}", f"{file.path.stem}.parquet") for file in trace.files]
    with resumable_folder(folder, parts, lambda path: _source_in(path) is not None, force=force) as places:
        tasks = [_Task(file, place) for file, place in zip(trace.files, places, strict=True)]
        written = list(workers.map(_write_file, tasks))
        size_bytes = sum(place.stat().st_size for place in places)
    return Exported(
        folder,
        sum(of_file.records for of_file in written),
        size_bytes,
        sum(of_file.left_out for of_file in written),
        sum(of_file.was_there for of_file in written),
    )


def _write_file(task: _Task, report: Report) -> _Written:
    source = _source_of(task.file)
    there = _source_in(task.path) if task.path.exists() else None
    if there is not None and there.source == source:
        report(task.file.size_bytes())
        return _Written(there.records, there.left_out, was_there=True)
    counter = ExportCounter(report)
    with part_of_folder(task.path) as aside:
        _write_table(task.file, aside, counter, source)
    return _Written(counter.records, counter.left_out, was_there=False)


def _write_table(file: TraceFile, path: Path, counter: ExportCounter, source: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = all_columns()
    schema = pa.schema(
        [pa.field(column.name, _arrow_type(column.type)) for column in columns],
        metadata={"proxy_trace.format": str(FORMAT), "proxy_trace.version": file.run.version, _SOURCE: source},
    )
    maker = TableMaker(file.names())

    def write(events: list[AnyEvent]) -> None:
        values = maker.columns(events)
        arrays = [pa.array(_items(values[field.name], field.type), field.type) for field in schema]
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=ROW_GROUP)

    # A path may contain any bytes, which Arrow would not accept.
    with path.open("wb") as stream, pq.ParquetWriter(stream, schema, **_encodings(columns)) as writer:
        for events in counter.batches(file, ROW_GROUP):
            write(events)
        writer.add_key_value_metadata({_LEFT_OUT: str(counter.left_out)})


class _There(NamedTuple):
    """The source and the counts stored in the table of a file."""

    source: str
    records: int
    left_out: int


def _source_of(file: TraceFile) -> str:
    """The state of a file and the version of this package. If either changes, the table may change."""
    try:
        now = file.path.stat()
    except OSError as error:
        raise UnreadableFileError(file.path, error) from error
    return f"{now.st_size} {now.st_mtime_ns} {now.st_ctime_ns} {__version__}"


def _source_in(path: Path) -> _There | None:
    """The source stored in a table; None if it is not a table written by an export."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as stream:
            footer = pq.read_metadata(stream)
        metadata = {key.decode(): value.decode() for key, value in (footer.metadata or {}).items()}
        return _There(metadata[_SOURCE], footer.num_rows, int(metadata[_LEFT_OUT]))
    except (OSError, pa.ArrowException, KeyError, ValueError):
        return None


def _items(values: list[Any], type_: Any) -> list[Any]:
    """Maps as lists of pairs, as Arrow expects."""
    import pyarrow as pa

    if not pa.types.is_map(type_):
        return values
    return [None if value is None else list(value.items()) for value in values]


def _arrow_type(type_: Type) -> Any:
    import pyarrow as pa

    return {
        Type.INT: pa.int64(),
        Type.NUMBER: pa.float64(),
        Type.BOOL: pa.bool_(),
        Type.TEXT: pa.string(),
        Type.TEXTS: pa.list_(pa.string()),
        Type.INTS: pa.list_(pa.int64()),
        Type.NUMBERS: pa.list_(pa.float64()),
        Type.TEXT_MAP: pa.map_(pa.string(), pa.string()),
        Type.INT_MAP: pa.map_(pa.string(), pa.int64()),
        Type.JSON: pa.string(),
    }[type_]


_IN_DICTIONARIES: Final = {
    Type.TEXT: ("",),
    Type.JSON: ("",),
    Type.TEXTS: (".list.element",),
    Type.TEXT_MAP: (".key_value.key", ".key_value.value"),
}
_AS_DIFFERENCES: Final = frozenset({"time_us", "id", "duration_us", "version", "step", "ordinal"})


def _encodings(columns: tuple[Column, ...]) -> dict[str, Any]:
    """The encoding of each leaf column, as arguments of `ParquetWriter`."""
    dictionaries: list[str] = []
    others: dict[str, str] = {}
    for column in columns:
        if column.type in _IN_DICTIONARIES:
            dictionaries += [column.name + leaf for leaf in _IN_DICTIONARIES[column.type]]
        elif column.type is Type.NUMBER:
            others[column.name] = "BYTE_STREAM_SPLIT"
        elif column.type is Type.NUMBERS:
            others[f"{column.name}.list.element"] = "BYTE_STREAM_SPLIT"
        elif column.type is Type.INTS:
            others[f"{column.name}.list.element"] = "DELTA_BINARY_PACKED"
        elif column.type is Type.INT_MAP:
            dictionaries.append(f"{column.name}.key_value.key")
            others[f"{column.name}.key_value.value"] = "DELTA_BINARY_PACKED"
        elif column.type is Type.INT and column.name in _AS_DIFFERENCES:
            others[column.name] = "DELTA_BINARY_PACKED"
        elif column.type is Type.INT:
            dictionaries.append(column.name)
    return {
        "compression": "zstd",
        "use_dictionary": dictionaries,
        "column_encoding": others,
        "write_statistics": True,
        "data_page_version": "2.0",
    }
