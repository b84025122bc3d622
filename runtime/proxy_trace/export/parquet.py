"""A run as a Parquet dataset, partitioned by run and rank: for DuckDB, Polars, Spark, pandas.

Small without being clever: texts that recur stand in dictionaries, times and ids as differences, statistics with
their bytes split (float32 values in float64 columns have zeros to spare), all of it under zstd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_trace.errors import MissingExtraError
from proxy_trace.export.columns import TableMaker, Type, all_columns
from proxy_trace.export.output import whole_or_nothing
from proxy_trace.export.result import ExportCounter, Exported
from proxy_wrapper.events import FORMAT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy_trace.export.columns import Column
    from proxy_trace.trace import Trace, TraceFile
    from proxy_wrapper.events import AnyEvent

ROW_GROUP: Final = 1 << 16
"""Records in a row group; what an export holds in memory at once."""

_COMPRESSION_LEVEL: Final = 3


def export_parquet(
    trace: Trace, target: Path, *, force: bool = False, on_progress: Callable[[int], None] | None = None
) -> Exported:
    """Write `trace` to `<target>/run=<run id>/rank=<rank>/<name of the trace file>.parquet`.

    A dataset that is there already gets the run added. Memory does not grow with the number of records.

    Args:
        trace: the run.
        target: the folder of the dataset.
        force: replace this run, if the dataset has it.
        on_progress: called now and then with the number of bytes read so far, over all files.

    Raises:
        MissingExtraError: if pyarrow is not installed.
        OutputExistsError: if the dataset has this run, unless `force`.
        UnwritableFileError: if the file system refuses to write.
        UnreadableFileError: if it refuses to read.
    """
    try:
        import pyarrow  # noqa: F401, ICN001  Asked for first, so that the message below names the extra.
    except ImportError as error:
        raise MissingExtraError("Parquet", "pyarrow", "export") from error
    counter = ExportCounter(on_progress)
    folder = target / f"run={trace.files[0].run.run}"
    with whole_or_nothing(folder, force=force, makes_folder=True) as aside:
        for file in trace.files:
            path = aside / f"rank={file.run.rank}" / f"{file.path.stem}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_file(file, path, counter)
        size_bytes = sum(path.stat().st_size for path in aside.rglob("*.parquet"))
    return counter.exported(folder, size_bytes)


def _write_file(file: TraceFile, path: Path, counter: ExportCounter) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = all_columns()
    schema = pa.schema(
        [pa.field(column.name, _arrow_type(column.type)) for column in columns],
        metadata={"proxy_trace.format": str(FORMAT), "proxy_trace.version": file.run.version},
    )
    maker = TableMaker(file.names())

    def write(events: list[AnyEvent]) -> None:
        values = maker.columns(events)
        arrays = [pa.array(_items(values[field.name], field.type), field.type) for field in schema]
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=ROW_GROUP)

    # A path may be any bytes, which Arrow's own would not take.
    with path.open("wb") as stream, pq.ParquetWriter(stream, schema, **_encodings(columns)) as writer:
        for events in counter.batches(file, ROW_GROUP):
            write(events)


def _items(values: list[Any], type_: Any) -> list[Any]:
    """Maps as the pairs that Arrow takes for them."""
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
    """How `ParquetWriter` lays out each leaf column."""
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
