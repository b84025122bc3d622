"""The writer loses nothing, and its failures never reach the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import torch
from torch.utils._pytree import tree_leaves

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import AnyEvent, CallModule, Event, Problem
from proxy_wrapper.observers import trace_writer
from proxy_wrapper.observers.trace_writer import TraceWriter
from tests.proxy_wrapper.programs import Plain, images, train

if TYPE_CHECKING:
    from collections.abc import Sequence


class ListSink:
    """Keeps events; raises once it has `limit`."""

    def __init__(self, limit: int = sys.maxsize) -> None:
        self.events: list[AnyEvent] = []
        self.limit = limit
        self.is_closed = False

    def write(self, events: Sequence[AnyEvent]) -> None:
        if len(self.events) + len(events) > self.limit:
            raise OSError(28, "No space left on device")
        self.events.extend(events)

    def close(self) -> None:
        self.is_closed = True


def numbered(count: int) -> list[Problem]:
    return [Problem(number) for number in range(count)]


def test_events_arrive_in_order_and_whole() -> None:
    sink, said = ListSink(), list[str]()
    writer = TraceWriter(lambda: sink, said.append)
    for event in numbered(10_000):
        writer.observe(event)
    writer.close()
    assert sink.events == numbered(10_000)
    assert sink.is_closed
    assert said == []


def test_a_full_queue_is_written_by_the_thread_that_fills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_writer, "QUEUE_LIMIT", 10)
    monkeypatch.setattr(trace_writer, "INTERVAL_S", 60.0)
    sink = ListSink()
    writer = TraceWriter(lambda: sink, lambda message: None)
    for event in numbered(25):
        writer.observe(event)
    assert len(sink.events) >= 10
    writer.close()
    assert sink.events == numbered(25)


def test_a_failing_sink_is_reported_once_with_what_was_lost() -> None:
    said: list[str] = []
    sink = ListSink(limit=0)
    writer = TraceWriter(lambda: sink, said.append)
    for event in numbered(3):
        writer.observe(event)
    writer.flush()
    writer.observe(Problem(4))
    writer.flush()
    assert len(said) == 1
    assert "No space left on device" in said[0]
    assert "Training goes on untraced" in said[0]
    assert sink.is_closed
    writer.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_ends_the_trace_and_nothing_else(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plain = tree_leaves(run(None))
    log = tmp_path / "full.log"
    log.symlink_to("/dev/full")
    traced = tree_leaves(run(str(log)))
    assert all(torch.equal(a, b) for a, b in zip(plain, traced, strict=True))
    assert capfd.readouterr().err.count("No space left on device") == 1


def run(logdir: str | None) -> object:
    torch.manual_seed(0)
    model = Plain()
    if logdir is not None:
        Proxy.Proxy(model, recurse=True, logdir=logdir, log_level="DEBUG")
    result = train(model)
    Proxy.flush()
    return result


def test_a_logdir_that_cannot_be_made_ends_the_trace_and_nothing_else(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    plain = tree_leaves(run(None))
    traced = tree_leaves(run(str(tmp_path / "file")))
    assert all(torch.equal(a, b) for a, b in zip(plain, traced, strict=True))
    error = capfd.readouterr().err
    assert error.count("proxy_wrapper:") == 1
    assert "FileExistsError" in error or "NotADirectoryError" in error
    assert (tmp_path / "file").read_text() == "mine"


def test_a_crashing_observer_is_dropped_and_reported_once(capfd: pytest.CaptureFixture[str], logdir: str) -> None:
    class Crashes:
        def observe(self, event: Event) -> None:
            raise ZeroDivisionError("mine")

        def flush(self) -> None: ...
        def close(self) -> None: ...

    Proxy.observe(Crashes())
    plain = tree_leaves(run(None))
    traced = tree_leaves(run(logdir))
    assert all(torch.equal(a, b) for a, b in zip(plain, traced, strict=True))
    assert capfd.readouterr().err.count("the observer Crashes") == 1
    (path,) = Path(logdir).glob("*/*.jsonl")
    events = msgspec.json.Decoder(AnyEvent).decode_lines(path.read_bytes())
    assert sum(isinstance(event, CallModule) for event in events) == 15
    assert any(isinstance(event, Problem) and "ZeroDivisionError: mine" in event.message for event in events)


SCRIPT = """
import sys, time, torch
from torch import nn
import proxy_wrapper.proxy as Proxy
model = Proxy.Proxy(nn.Linear(2, 2), name="net", logdir=sys.argv[1])
{body}
"""


def start(body: str, logdir: str) -> subprocess.Popen[str]:
    path = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body=body), logdir],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def calls_in(logdir: str) -> int:
    (path,) = Path(logdir).glob("*/*.jsonl")
    lines = path.read_bytes().split(b"\n")[:-1]
    events = [msgspec.json.decode(line, type=AnyEvent) for line in lines]
    return sum(isinstance(event, CallModule) for event in events)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_process_loses_at_most_the_last_second(logdir: str) -> None:
    body = "for _ in range(100): model(torch.ones(1, 2))\ntime.sleep(1)\nprint('go', flush=True)\ntime.sleep(60)"
    process = start(body, logdir)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert calls_in(logdir) == 100


def test_an_exception_loses_nothing_and_is_the_program_s_own(logdir: str) -> None:
    process = start("for _ in range(100): model(torch.ones(1, 2))\nraise ValueError('mine')", logdir)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert error.endswith("ValueError: mine\n")
    assert "proxy_wrapper" not in error
    assert calls_in(logdir) == 100


def test_an_interrupt_loses_nothing(logdir: str) -> None:
    process = start("for _ in range(100): model(torch.ones(1, 2))\nprint('go', flush=True)\ntime.sleep(60)", logdir)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert calls_in(logdir) == 100


def test_two_programs_in_one_logdir_leave_two_traces(logdir: str) -> None:
    processes = [start("model(torch.ones(1, 2))", logdir) for _ in range(2)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    for process in processes:
        process.communicate()
    assert len(list(Path(logdir).glob("*/*.jsonl"))) == 2


def test_images_are_not_in_the_trace(logdir: str) -> None:
    """The trace holds what is needed to read it, never contents of tensors or the environment."""
    os.environ["A_SECRET_TOKEN"] = "hunter2"
    try:
        model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
        model(images())
        Proxy.flush()
    finally:
        del os.environ["A_SECRET_TOKEN"]
    (path,) = Path(logdir).glob("*/*.jsonl")
    assert "hunter2" not in path.read_text()
