from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy_trace.cli import run_command

if TYPE_CHECKING:
    from proxy_wrapper.events import Event
    from tests.proxy_trace.conftest import WriteTrace


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("options", "path"),
    [
        pytest.param([], "proxy_trace.parquet/run=20261121T080911-3f2a9c/rank=0/rank0-100.parquet", id="Parquet"),
        pytest.param(["-f", "chrome"], "20261121T080911-3f2a9c.json.gz", id="a timeline"),
        pytest.param(["-f", "csv"], "20261121T080911-3f2a9c.csv", id="a table"),
        pytest.param(["-o", "t.json"], "t.json", id="the name determines the format"),
        pytest.param(["-o", "x.y", "-f", "csv"], "x.y", id="the option counts, not the name"),
        pytest.param(["-o", "dataset"], "dataset/run=20261121T080911-3f2a9c/rank=0/rank0-100.parquet", id="a folder"),
    ],
)
def test_the_output_is_where_it_is_asked_for(
    options: list[str],
    path: str,
    small_trace: Path,
    small_run: list[Event],
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["export", str(small_trace), *options]) == 0
    assert [str(found.relative_to(here)) for found in here.rglob("*") if found.is_file()] == [path]
    said = capsys.readouterr()
    assert path.partition("/rank=")[0] in said.out
    assert f"{len(small_run) + 1} records" in said.out
    assert said.err == ""


def test_a_second_export_says_how_to_replace_the_first(
    small_trace: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["export", str(small_trace)]) == 0
    assert run_command(["export", str(small_trace)]) == 2
    assert "already exists. Use --force" in capsys.readouterr().err
    assert run_command(["export", str(small_trace), "--force"]) == 0


def test_a_name_that_says_no_format_is_refused(
    small_trace: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["export", str(small_trace), "-o", "run.xlsx"]) == 2
    assert "give a name in .parquet, .json, .json.gz, .csv" in capsys.readouterr().err


def test_lines_that_are_no_records_are_told(
    tmp_path: Path, write_trace: WriteTrace, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_trace(tmp_path / "r" / "rank0-1.jsonl", tail=b"{oops\n{}\n")
    assert run_command(["export", str(path), "-f", "csv"]) == 0
    assert "2 lines left out" in capsys.readouterr().err


def test_a_file_where_a_folder_must_be_is_told(
    small_trace: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("")
    assert run_command(["export", str(small_trace), "-o", "file/run.csv"]) == 2
    assert "file/run.csv: cannot be written" in capsys.readouterr().err
