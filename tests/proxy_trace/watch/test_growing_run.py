"""A run that is still going is read as far as it is written, each record once."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec

from proxy_trace.checks.choice import EVERYTHING
from proxy_trace.open_trace import open_trace
from proxy_trace.watch import growing_run
from proxy_trace.watch.growing_run import GrowingRun
from proxy_wrapper import events
from tests.proxy_trace.conftest import make_run
from tests.proxy_trace.report.conftest import drawn_records, loss_at, rate_at

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.proxy_trace.conftest import WriteTrace


def lines_of(records: list[events.Event], **run: int) -> list[bytes]:
    return [msgspec.json.encode(each) + b"\n" for each in [make_run(**run), *records]]


def test_what_is_written_bit_by_bit_says_the_same_as_what_is_read_at_once(tmp_path: Path) -> None:
    records = [*drawn_records(steps=30), events.NonFinite(31_000, 30, 2, where="gradient", tensor=1, count=2)]
    data = b"".join(lines_of(records, pid=os.getpid()))
    path = tmp_path / "run" / "rank0-1.jsonl"
    path.parent.mkdir()
    path.write_bytes(data[:2000])
    growing = GrowingRun(tmp_path / "run", EVERYTHING)
    for end in range(2000, len(data), 777):  # Within lines, too.
        path.write_bytes(data[:end])
        snapshot = growing.read_on()
        assert not snapshot.end
        assert "incomplete-trace" not in {finding.code for finding in snapshot.findings}
    path.write_bytes(data + msgspec.json.encode(events.RunEnd(32_000, 30)) + b"\n")
    snapshot = growing.read_on()
    assert snapshot.end == "exit"
    assert snapshot.numbers.step == 30
    assert list(snapshot.numbers.losses["train.py:5"]) == [loss_at(step) for step in range(30)]
    assert snapshot.numbers.rates == {"SGD": [rate_at(0)]}
    at_once = open_trace(tmp_path / "run").summary().findings
    assert [(each.code, each.name) for each in snapshot.findings] == [(each.code, each.name) for each in at_once]
    assert "non-finite" in {finding.code for finding in snapshot.findings}


def test_ranks_that_begin_later_are_seen(tmp_path: Path, write_trace: WriteTrace) -> None:
    def write(rank: int, steps: int) -> None:
        path = tmp_path / "run" / f"rank{rank}-1.jsonl"
        write_trace(path, *drawn_records(steps=steps), ends=True, rank=rank, world_size=2, pid=os.getpid())

    write(0, 3)
    growing = GrowingRun(tmp_path, EVERYTHING)
    assert growing.read_on().processes == 1
    write(1, 5)
    snapshot = growing.read_on()
    assert (snapshot.processes, snapshot.numbers.step) == (2, 5)


def test_a_process_that_is_gone_without_a_word_was_killed(
    tmp_path: Path, write_trace: WriteTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    write_trace(tmp_path / "run" / "rank0-1.jsonl", *drawn_records(steps=3), pid=process.pid)
    growing = GrowingRun(tmp_path, EVERYTHING)
    growing.read_on()
    assert growing.read_on().end == ""  # It may be on its way to the disk.
    monkeypatch.setattr(growing_run, "_SILENT_S", 0.0)
    assert growing.read_on().end == "killed"


def test_a_process_that_is_silent_and_there_goes_on(
    tmp_path: Path, write_trace: WriteTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_trace(tmp_path / "run" / "rank0-1.jsonl", *drawn_records(steps=3), pid=os.getpid())
    growing = GrowingRun(tmp_path, EVERYTHING)
    growing.read_on()
    monkeypatch.setattr(growing_run, "_SILENT_S", 0.0)
    assert growing.read_on().end == ""
