"""One table, read by the standard library's own reader."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy_trace.errors import OutputExistsError
from proxy_trace.export.columns import all_columns
from proxy_trace.export.csv_file import export_csv
from proxy_trace.reading.trace import Trace
from proxy_wrapper import events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_there_is_a_row_for_each_record(small_trace: Path, tmp_path: Path, small_run: list[Any]) -> None:
    done = export_csv(Trace.open(small_trace), tmp_path / "run.csv")
    rows = read(tmp_path / "run.csv")
    assert len(rows) == done.records == len(small_run) + 1
    assert list(rows[0]) == ["run", "rank", "process", *(column.name for column in all_columns())]
    assert {row["process"] for row in rows} == {"rank0-100"}
    update = next(row for row in rows if row["kind"] == "update")
    assert (update["tensor_name"], update["cause"], update["minimum"]) == ("model.fc.weight", "step", "-0.75")
    assert update["inputs"] == ""


def test_lists_are_json_and_numbers_that_are_none_are_words(tmp_path: Path, write_trace: WriteTrace) -> None:
    call = events.ReturnModule(5, outputs=['one, "two"', "three\nfour"], output_ids=[1, 2], keywords={"x": "y"})
    gradient = events.Gradient(6, statistics=events.Statistics("nan", "inf", "-inf", 3))
    path = write_trace(tmp_path / "r" / "rank0-1.jsonl", call, gradient)
    export_csv(Trace.open(path), tmp_path / "run.csv")
    _, first, second = read(tmp_path / "run.csv")
    assert json.loads(first["outputs"]) == call.outputs
    assert json.loads(first["output_ids"]) == [1, 2]
    assert json.loads(first["keywords"]) == {"x": "y"}
    assert first["raised"] == "false"
    assert [second[name] for name in ("minimum", "maximum", "norm", "nonfinite")] == ["nan", "inf", "-inf", "3"]


def test_nothing_is_replaced_unless_forced(small_trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "run.csv"
    target.write_text("mine")
    with pytest.raises(OutputExistsError):
        export_csv(Trace.open(small_trace), target)
    assert target.read_text() == "mine"
    export_csv(Trace.open(small_trace), target, force=True)
    assert target.read_text().startswith("run,rank,process,kind,")
    assert [path for path in tmp_path.iterdir() if path.name.endswith((".partial", ".old"))] == []


def test_numbers_of_several_tensors_are_json_with_words_for_those_that_are_none(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    several = [events.Statistics("nan", 2.5, "inf", 1, "00ff"), None]
    call = events.ReturnModule(5, outputs=["float32[2]", "float32[3]"], statistics=several)
    export_csv(Trace.open(write_trace(tmp_path / "r" / "rank0-1.jsonl", call)), tmp_path / "run.csv")
    row = read(tmp_path / "run.csv")[1]
    found = {name: json.loads(row[f"output_{name}"]) for name in events.Statistics.__struct_fields__}
    assert found == {
        "minimum": ["nan", None],
        "maximum": [2.5, None],
        "norm": ["inf", None],
        "nonfinite": [1, None],
        "bits": ["00ff", None],
    }
