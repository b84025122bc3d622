"""What is told of trace files that break off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import of_code, said

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


def test_incomplete_files_are_told_with_what_they_lack(tmp_path: Path, write_trace: WriteTrace) -> None:
    tail = b'nonsense\n{"kind":"fold"}\n{"kind":"fold"}\n{"kind":"mod'
    records = [events.Module(1, "model", "Net", 1), events.CallModule(1, module=1)]
    path = write_trace(tmp_path / "rank0-1.jsonl", *records, tail=tail)
    (tmp_path / "rank1-2.jsonl").touch()
    assert of_code(tmp_path, "incomplete-trace") == [
        (str(path), "cut off within its last line: the process was killed, or is still running"),
        (
            str(path),
            "ends inside a call of model: the process was killed or interrupted there, or is still running",
        ),
        (str(path), "1 malformed line left out, the first is line 4"),
        (str(path), "records of unknown kinds left out, perhaps from a newer version: fold (2)"),
        (str(tmp_path / "rank1-2.jsonl"), "it is empty"),
    ]


def test_files_that_end_in_order_have_passed(tmp_path: Path, write_trace: WriteTrace) -> None:
    assert said(write_trace(tmp_path / "a.jsonl"), "files") == ("passed", [])
    assert said(write_trace(tmp_path / "b.jsonl", ends=False), "files") == ("finding", [])
