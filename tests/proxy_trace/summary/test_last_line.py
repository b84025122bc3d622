"""Which run `instrument run` and `%%trace` speak of when a program has ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from proxy_trace.summary.last_line import find_run

if TYPE_CHECKING:
    from pathlib import Path

PID = 4711


def write_run(logdir: Path, name: str, *, pid: int = PID, written_s: float = 100.0) -> Path:
    file = logdir / name / f"rank0-{pid}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("{}\n")
    os.utime(file, (written_s, written_s))
    return file.parent


def test_of_several_runs_of_a_process_the_one_it_names_is_meant(tmp_path: Path) -> None:
    first, second = write_run(tmp_path, "a"), write_run(tmp_path, "b")
    assert find_run(tmp_path, PID, "a", 0.0) == first
    assert find_run(tmp_path, PID, "b", 0.0) == second


def test_without_its_name_it_is_the_one_written_to_last(tmp_path: Path) -> None:
    later = write_run(tmp_path, "a", written_s=200.0)
    write_run(tmp_path, "b")
    assert find_run(tmp_path, PID, "c", 0.0) == later


def test_a_run_of_another_process_is_meant_if_it_has_the_name_or_was_written_since(tmp_path: Path) -> None:
    named, recent = write_run(tmp_path, "a", pid=1), write_run(tmp_path, "b", pid=1, written_s=200.0)
    assert find_run(tmp_path, PID, "a", 150.0) == named
    assert find_run(tmp_path, PID, "c", 150.0) == recent
    assert find_run(tmp_path, PID, "c", 300.0) is None


def test_where_nothing_was_written_there_is_none(tmp_path: Path) -> None:
    assert find_run(tmp_path, PID, "a", 0.0) is None
    assert find_run(tmp_path / "nowhere", PID, "a", 0.0) is None
