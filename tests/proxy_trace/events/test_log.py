from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_trace.errors import UnreadableFileError
from proxy_trace.events.log import log_lines, text_log_lines
from proxy_trace.reading.selection import Selection, StepRange
from proxy_trace.reading.trace import Trace
from proxy_wrapper import events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


def test_a_trace_is_told_in_the_words_of_a_text_log(small_trace: Path) -> None:
    lines = list(log_lines(Trace.open(small_trace)))
    assert lines[:4] == [
        "found the root object",
        "logger_proxy: Proxying all submodules of 'Net'",
        "logger_proxy: Proxying submodule 'fc'",
        "logger_proxy: Proxying submodule 'spare'",
    ]
    assert lines[-1] == "INFO:root:Maximum value: 0.5"


def test_several_processes_follow_each_other_under_headings(tmp_path: Path, write_trace: WriteTrace) -> None:
    for rank in (0, 1):
        write_trace(tmp_path / f"rank{rank}-{rank}.jsonl", events.Module(1, "m", "Net", 1), rank=rank, pid=rank)
    assert list(log_lines(Trace.open(tmp_path))) == [
        "==> rank 0, process 0 <==",
        "found the root object",
        "logger_proxy: Proxying all submodules of 'Net'",
        "==> rank 1, process 1 <==",
        "found the root object",
        "logger_proxy: Proxying all submodules of 'Net'",
    ]


def test_a_process_of_which_nothing_is_chosen_has_no_heading(tmp_path: Path, write_trace: WriteTrace) -> None:
    for rank in (0, 1):
        problem = events.Problem(1, rank, message="no disk")
        write_trace(tmp_path / f"rank{rank}-{rank}.jsonl", problem, rank=rank, pid=rank)
    assert list(log_lines(Trace.open(tmp_path), Selection(steps=StepRange(1, 1)))) == [
        "==> rank 1, process 1 <==",
        "WARNING:root:Tracing problem: no disk (at step 1)",
    ]


def test_a_text_log_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"found the root object\nno UTF-8: \xff\ncut")
    assert list(text_log_lines(path)) == ["found the root object", "no UTF-8: \ufffd", "cut"]
    with pytest.raises(UnreadableFileError):
        list(text_log_lines(tmp_path))
