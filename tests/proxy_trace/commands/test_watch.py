"""The command follows a run until it ends, in a pipe as plain lines."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import msgspec

from proxy_trace.cli import run_command
from proxy_wrapper import events
from tests.proxy_trace.conftest import make_run
from tests.proxy_trace.report.conftest import drawn_records

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.proxy_trace.conftest import WriteTrace


def test_it_goes_on_until_the_run_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run" / "rank0-1.jsonl"
    path.parent.mkdir()
    broken = events.NonFinite(9, 3, 2, 3, where="gradient", tensor=1, count=2)
    records = [make_run(pid=os.getpid()), *drawn_records(steps=4), broken, events.RunEnd(9_000, 4)]
    path.write_bytes(msgspec.json.Encoder().encode_lines(records[:5]))

    def write() -> None:
        for record in records[5:]:
            time.sleep(0.02)
            with path.open("ab") as file:
                file.write(msgspec.json.encode(record) + b"\n")

    writer = threading.Thread(target=write)
    writer.start()
    assert run_command(["watch", str(tmp_path / "run"), "--every", "0.1"]) == 0
    writer.join()
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "The run has ended."
    assert sum(line.startswith("error[non-finite] model.fc.weight") for line in lines) == 1
    assert "4 steps, loss 0.75 (train.py:5), rate 0.5 (SGD)" in "\n".join(lines)


def test_on_a_terminal_the_screen_is_shown_and_nothing_steers_it(tmp_path: Path, write_trace: WriteTrace) -> None:
    records = drawn_records("model\x1b[2J", steps=4)
    path = write_trace(tmp_path / "run" / "rank0-1.jsonl", *records, ends=True, argv=["\x1b]0;title\x07"])
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "proxy_trace", "watch", str(path)]
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment) as process:
        assert process.wait(60) == 0
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 1 << 16):
            shown += chunk
    except OSError:  # On Linux the end of what a terminal has to read is an error.
        pass
    os.close(ours)
    text = shown.decode()
    assert "loss  0.75" in text
    assert "The run has ended." in text
    assert "\x1b[2J" not in text
    assert "\x1b]0;" not in text


def test_without_a_run_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["watch"]) == 2
    assert "no RUN was given" in capsys.readouterr().err
