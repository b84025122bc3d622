from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from proxy_trace.errors import NoTraceError, TextLogError, TraceNotFoundError
from proxy_trace.reading.find_run import find_run_files

if TYPE_CHECKING:
    from pathlib import Path


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_a_file_stands_for_itself(tmp_path: Path) -> None:
    file = touch(tmp_path / "anything.txt")
    assert find_run_files(file) == [file]


def test_a_run_directory_stands_for_its_files(tmp_path: Path) -> None:
    files = [touch(tmp_path / "rank0-1.jsonl"), touch(tmp_path / "rank1-2.jsonl")]
    touch(tmp_path / "notes.txt")
    assert find_run_files(tmp_path) == files


def test_a_logdir_stands_for_its_newest_run(tmp_path: Path) -> None:
    touch(tmp_path / "20261120T235959-ffffff" / "rank0-1.jsonl")
    newest = touch(tmp_path / "20261121T000000-000000" / "rank0-1.jsonl")
    touch(tmp_path / "zz-kept-for-later" / "rank0-1.jsonl")
    assert find_run_files(tmp_path) == [newest]


def test_a_run_that_has_no_file_yet_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "20261121T000000-000000").mkdir()
    older = touch(tmp_path / "20261120T000000-000000" / "rank0-1.jsonl")
    assert find_run_files(tmp_path) == [older]


def test_renamed_runs_are_found_where_there_are_no_others(tmp_path: Path) -> None:
    baseline = touch(tmp_path / "baseline" / "rank0-1.jsonl")
    assert find_run_files(tmp_path) == [baseline]


def test_a_log_file_is_a_text_log(tmp_path: Path) -> None:
    with pytest.raises(TextLogError):
        find_run_files(touch(tmp_path / "run.log"))


def test_a_directory_of_text_logs_stands_for_the_newest(tmp_path: Path) -> None:
    for age, name in enumerate(["new.log", "old.log"]):
        os.utime(touch(tmp_path / name), (1000 - age, 1000 - age))
    with pytest.raises(TextLogError) as caught:
        find_run_files(tmp_path)
    assert caught.value.path == tmp_path / "new.log"


def test_nothing_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceNotFoundError, match="nowhere: no such file or directory"):
        find_run_files(tmp_path / "nowhere")
    with pytest.raises(NoTraceError, match="contains no trace"):
        find_run_files(tmp_path)
