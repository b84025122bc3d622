"""The dataset holds what the JSON Lines hold, read by two engines that nobody here wrote."""

from __future__ import annotations

import math
import sys
import tempfile
import tracemalloc
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec
import polars as pl
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy_trace.errors import MissingExtraError, NotOurOutputError, OutputExistsError, UnwritableFileError
from proxy_trace.export import parquet
from proxy_trace.export.columns import all_columns
from proxy_trace.export.parquet import export_parquet
from proxy_trace.reading.trace import KINDS, Trace
from proxy_trace.reading.workers import Workers
from proxy_wrapper import events
from tests.proxy_trace.generated_records import records

if TYPE_CHECKING:
    from tests.proxy_trace.conftest import WriteTrace

FOR_CONVENIENCE = {"module_name", "tensor_name", "place"}
OF_THE_PARTITION = {"run", "rank"}
WITH_SEVERAL = {events.ReturnModule, events.CallFunction, events.CallMethod}
"""The records that have statistics of several tensors."""

AS_JSON = {
    (events.ReadValue, "value"),
    (events.FlowStep, "value"),
    (events.Configuration, "settings"),
    (events.Module, "settings"),
    (events.SchedulerStep, "settings"),
    (events.Loss, "nodes"),
    (events.Loss, "calls"),
    (events.Optimizer, "groups"),
    (events.Optimizer, "rates"),
}
"""The fields that stand in a column as JSON."""


def read_with_polars(dataset: Path) -> list[dict[str, Any]]:
    return pl.read_parquet(f"{dataset}/**/*.parquet", hive_partitioning=False).to_dicts()


def read_with_duckdb(dataset: Path) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT * FROM read_parquet('{dataset}/**/*.parquet', hive_partitioning = false)")
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def event_of(row: dict[str, Any]) -> events.AnyEvent:
    """The record that a row was made from, by the documented rules alone."""
    event_class = KINDS[row["kind"]]
    fields: dict[str, Any] = {}
    for name in event_class.__struct_fields__:  # type: ignore[attr-defined]
        if event_class is events.Run and name in OF_THE_PARTITION:
            fields[name] = {"run": "r", "rank": 0}[name]
        elif event_class is events.Run and name == "version":
            fields[name] = row["run_version"]
        elif name == "statistics" and event_class not in WITH_SEVERAL:
            fields[name] = statistics_of({each: row[each] for each in events.Statistics.__struct_fields__})
        elif name in ("statistics", "changed_statistics"):
            of = "output" if name == "statistics" else "changed"
            lists = {each: row[f"{of}_{each}"] for each in events.Statistics.__struct_fields__}
            fields[name] = (
                None
                if lists["bits"] is None
                else [
                    statistics_of(dict(zip(lists, numbers, strict=True)))
                    for numbers in zip(*lists.values(), strict=True)
                ]
            )
        elif (event_class, name) in AS_JSON:
            hint = typing.get_type_hints(event_class, include_extras=True)[name]
            fields[name] = None if row[name] is None else msgspec.json.decode(row[name], type=hint)
        elif (event_class, name) in ((events.GraphPattern, "values"), (events.StatePattern, "values")):
            fields[name] = [as_text(each) for each in row[name]]
        else:
            fields[name] = as_text(row[name])
    return typing.cast("events.AnyEvent", event_class(**fields))


def statistics_of(numbers: dict[str, Any]) -> events.Statistics | None:
    """The statistics of a tensor, whose numbers stand in columns of their own."""
    if numbers["nonfinite"] is None:
        return None
    return events.Statistics(**{key: as_text(value) for key, value in numbers.items()})


def as_text(number: Any) -> Any:
    """NaN and the infinities as JSON Lines spell them."""
    if isinstance(number, float) and not math.isfinite(number):
        return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"
    return number


@settings(max_examples=25, deadline=None)
@given(generated=st.lists(records(), max_size=60))
@pytest.mark.parametrize("read", [read_with_polars, read_with_duckdb])
def test_every_record_comes_back_exactly(read: Any, generated: list[Any], write_trace: WriteTrace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_trace(Path(folder, "r", "rank0-1.jsonl"), *generated, run="r", rank=0)
        trace = Trace.open(path)
        written = [event if not isinstance(event, events.Run) else at_home(event) for event in trace.files[0].read()]
        export_parquet(trace, Path(folder, "dataset"))
        rows = read(Path(folder, "dataset"))
    assert [event_of(row) for row in rows] == written


def at_home(run: events.Run) -> events.Run:
    """A header as its partition tells it."""
    return msgspec.structs.replace(run, run="r", rank=0)


def test_rows_say_what_ids_stand_for(small_trace: Path, tmp_path: Path) -> None:
    export_parquet(Trace.open(small_trace), tmp_path / "dataset")
    rows = read_with_polars(tmp_path / "dataset")
    update = next(row for row in rows if row["kind"] == "update")
    assert (update["module_name"], update["tensor_name"], update["place"]) == (
        "model.fc",
        "model.fc.weight",
        "train.py:10",
    )
    call = next(row for row in rows if row["kind"] == "backward")
    assert call["module_name"] is None


def test_processes_lie_in_partitions_that_engines_know(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[Any]
) -> None:
    for run, rank in (("r1", 0), ("r1", 1), ("r2", 0)):
        write_trace(tmp_path / run / f"rank{rank}-{100 + rank}.jsonl", *small_run, run=run, rank=rank, pid=100 + rank)
    for run in ("r1", "r2"):
        export_parquet(Trace.open(tmp_path / run), tmp_path / "dataset")
    with duckdb.connect() as connection:
        query = (
            f"FROM read_parquet('{tmp_path}/dataset/**/*.parquet') SELECT run, rank, count(*) GROUP BY ALL ORDER BY ALL"
        )
        counted = connection.execute(query).fetchall()
    count = len(small_run) + 1
    assert counted == [("r1", 0, count), ("r1", 1, count), ("r2", 0, count)]


def test_a_run_is_not_replaced_unless_forced(small_trace: Path, tmp_path: Path) -> None:
    trace, dataset = Trace.open(small_trace), tmp_path / "dataset"
    first = export_parquet(trace, dataset)
    with pytest.raises(OutputExistsError, match="--force"):
        export_parquet(trace, dataset)
    assert export_parquet(trace, dataset, force=True) == first
    assert [path.name for path in dataset.iterdir()] == [first.path.name]


def test_there_is_never_half_a_run(small_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, dataset = Trace.open(small_trace), tmp_path / "dataset"
    before = export_parquet(trace, dataset)
    written = {path: path.read_bytes() for path in before.path.rglob("*.parquet")}

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pyarrow.parquet.ParquetWriter, "write_table", full)
    with pytest.raises(UnwritableFileError, match="No space left"):
        export_parquet(trace, dataset, force=True)
    assert {path: path.read_bytes() for path in dataset.rglob("*") if path.is_file()} == written


@pytest.fixture
def many_files(tmp_path: Path, write_trace: WriteTrace, small_run: list[Any]) -> Trace:
    """A run of four ranks."""
    for rank in range(4):
        path = tmp_path / "r" / f"rank{rank}-{100 + rank}.jsonl"
        write_trace(path, *small_run, run="r", rank=rank, pid=100 + rank, tail=b"{}\n" * rank)
    return Trace.open(tmp_path / "r")


def test_any_number_of_jobs_writes_the_same(many_files: Trace, tmp_path: Path) -> None:
    alone = export_parquet(many_files, tmp_path / "alone")
    with Workers(2) as workers:
        together = export_parquet(many_files, tmp_path / "together", workers=workers)
    assert together == alone._replace(path=together.path)
    assert (alone.records, alone.left_out, alone.files_before) == (4 * 34, 6, 0)
    written = [
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (alone.path, together.path)
    ]
    assert len(written[0]) == 4
    assert written[0] == written[1]


def break_off(trace: Trace, dataset: Path, after: int) -> None:
    """Export until so many files are written."""
    files: list[int] = []

    def stop(_: int) -> None:
        files.append(1)
        if len(files) > after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_parquet(trace, dataset, workers=Workers(on_progress=stop))


def test_an_export_that_broke_off_goes_on_where_it_was(many_files: Trace, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    break_off(many_files, dataset, after=2)
    assert list(dataset.glob("**/*.parquet")) == []  # Nothing that a query would find.
    before = {path: path.stat().st_mtime_ns for path in dataset.rglob("*.whole")}
    assert len(before) == 2
    read: list[int] = []
    done = export_parquet(many_files, dataset, workers=Workers(on_progress=read.append))
    assert (done.files_before, done.records, done.left_out) == (2, 4 * 34, 6)
    assert read[-1] == sum(file.size_bytes() for file in many_files.files)
    after = {path.stem: path.stat().st_mtime_ns for path in dataset.rglob("*.parquet")}
    assert {path.name.partition(".")[0]: time for path, time in before.items()}.items() <= after.items()
    assert export_parquet(many_files, tmp_path / "other")._replace(path=done.path, files_before=2) == done


def test_a_file_that_has_changed_since_is_exported_anew(
    many_files: Trace, tmp_path: Path, write_trace: WriteTrace
) -> None:
    dataset = tmp_path / "dataset"
    break_off(many_files, dataset, after=3)
    grown = many_files.files[1].path
    with grown.open("ab") as file:
        file.write(msgspec.json.encode(events.RunEnd(9)) + b"\n")
    done = export_parquet(Trace.open(tmp_path / "r"), dataset)
    assert (done.files_before, done.records) == (2, 4 * 34 + 1)


def test_what_an_export_of_other_ranks_left_is_no_part_of_this_one(many_files: Trace, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    break_off(many_files, dataset, after=3)
    done = export_parquet(many_files.of_rank(1), dataset)
    assert done.files_before == 1
    assert [path.name for path in dataset.rglob("*.parquet")] == ["rank1-101.parquet"]


def test_a_table_that_no_export_made_is_left_alone(many_files: Trace, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    break_off(many_files, dataset, after=2)
    theirs = next(dataset.rglob("*.whole"))
    pl.DataFrame({"a": [1]}).write_parquet(theirs)
    with pytest.raises(NotOurOutputError, match="was not made by one"):
        export_parquet(many_files, dataset)
    assert pl.read_parquet(theirs.read_bytes()).to_dicts() == [{"a": 1}]


def test_without_pyarrow_the_extra_is_named(small_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'instrumentor\[export\]'"):
        export_parquet(Trace.open(small_trace), tmp_path / "dataset")
    assert not (tmp_path / "dataset").exists()


def test_memory_does_not_grow_with_the_trace(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP", 1024)
    happenings = [event for event in small_run if isinstance(event, events.Happening)]

    def peak(times: int) -> int:
        path = write_trace(tmp_path / f"r{times}" / "rank0-1.jsonl", *small_run, *happenings * times, run=f"r{times}")
        trace = Trace.open(path)
        tracemalloc.start()
        try:
            export_parquet(trace, tmp_path / "dataset")
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)
    small, large = peak(100), peak(1000)
    assert large < 1.3 * small


def test_columns_do_not_contradict_each_other() -> None:
    names = [column.name for column in all_columns()]
    assert len(set(names)) == len(names)
    assert names[0] == "kind"
    assert not OF_THE_PARTITION & set(names)
    assert set(names) >= FOR_CONVENIENCE
