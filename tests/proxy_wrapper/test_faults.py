"""Processes that are killed, disks that fill, folders that go away: training goes on, and what was lost is told once.

Most of these happen in forked children, where torch is loaded already; what the interpreter does at its end, in
processes of their own.
"""

from __future__ import annotations

import contextlib
import faulthandler
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from _thread import _count as count_threads
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import torch
from torch.utils._pytree import tree_leaves

import proxy_wrapper.proxy as Proxy
from proxy_trace.reading.trace import Trace
from proxy_trace.summary.run_summary import summarize
from proxy_wrapper.events import AnyEvent, CallModule, Event, Problem, RunEnd
from proxy_wrapper.writing.observers import trace_writer
from tests.proxy_wrapper.programs import Plain, images, train

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="these faults are POSIX's"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


def run_in_child(function: Callable[[], object]) -> int:
    """Start `function` in a forked child, which ends with it as a killed one would: without a word."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        except BaseException:  # noqa: BLE001  A test's own failure too.
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def code_of(child: int) -> int:
    """How a child ended: its exit code, or the signal's number below zero."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def traced_run(logdir: str, level: str = "INFO") -> Any:
    """What `plain_run` gives, with the model proxied."""
    torch.manual_seed(0)
    return train(Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level=level))


def plain_run() -> Any:
    torch.manual_seed(0)
    return train(Plain())


def is_same(first: Any, second: Any) -> bool:
    pairs = zip(tree_leaves(first), tree_leaves(second), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def events_in(logdir: str) -> list[AnyEvent]:
    """The events of the one trace in `logdir`; a last line that breaks off is left out."""
    (path,) = Path(logdir).glob("*/*.jsonl")
    lines = path.read_bytes().split(b"\n")[:-1]
    return [msgspec.json.decode(line, type=AnyEvent) for line in lines]


def calls_in(logdir: str) -> int:
    return sum(isinstance(event, CallModule) for event in events_in(logdir))


# Killed.


class Progress:
    """When each call of the model ended, told by a child through memory that outlives it."""

    def __init__(self, limit: int) -> None:
        self._memory = mmap.mmap(-1, 8 * limit)
        self._limit = limit

    def note(self, index: int) -> None:
        struct.pack_into("d", self._memory, 8 * index, time.monotonic())

    def calls_before(self, moment: float) -> int:
        moments = struct.unpack(f"{self._limit}d", self._memory[:])
        return sum(0.0 < other < moment for other in moments)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kill_after_s", [round(random.Random(seed).uniform(0.05, 1.8), 2) for seed in range(8)])
def test_a_killed_process_loses_at_most_the_last_second_and_nothing_before(kill_after_s: float, logdir: str) -> None:
    progress = Progress(200_000)

    def work() -> None:
        model = Proxy.Proxy(torch.nn.Linear(2, 2), name="net", logdir=logdir)
        for index in range(200_000):
            Proxy._installed.get().step = index  # So that each call can be told from the others.
            model(torch.ones(1, 2))
            progress.note(index)

    child = run_in_child(work)
    time.sleep(kill_after_s)
    killed = time.monotonic()
    os.kill(child, signal.SIGKILL)
    assert code_of(child) == -signal.SIGKILL
    paths = list(Path(logdir).glob("*/*.jsonl"))
    steps = [event.step for event in events_in(logdir) if isinstance(event, CallModule)] if paths else []
    assert steps == list(range(len(steps)))
    assert len(steps) >= progress.calls_before(killed - 1.0)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param(lambda: os.kill(os.getpid(), signal.SIGTERM), -signal.SIGTERM, id="SIGTERM"),
        pytest.param(os.abort, -signal.SIGABRT, id="os.abort"),
        pytest.param(lambda: os._exit(7), 7, id="os._exit"),
    ],
)
def test_a_sudden_end_keeps_its_exit_code_and_shows_in_the_summary(
    end: Callable[[], None], code: int, logdir: str
) -> None:
    def work() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.disable()  # That of the tests.
        traced_run(logdir)
        time.sleep(1)
        end()

    assert code_of(run_in_child(work)) == code
    assert calls_in(logdir) == 15
    findings = summarize(Trace.open(logdir)).findings
    reasons = [finding.reason for finding in findings if finding.code == "incomplete-trace"]
    assert reasons == ["has no end: the process was killed, or is still running"]


SCRIPT = """
import os, signal, sys, threading, time, torch
from torch import nn
import proxy_wrapper.proxy as Proxy
model = nn.Linear(2, 2)
Proxy.Proxy(model, name="net", logdir=sys.argv[1])
for _ in range(5000):
    model(torch.ones(1, 2))
"""


def run_script(tmp_path: Path, logdir: str, body: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + body)
    return subprocess.run(
        [sys.executable, script, logdir],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("body", "code", "reason", "error"),
    [
        pytest.param("raise ValueError('mine')", 1, "exception", "ValueError", id="an exception"),
        pytest.param(
            "os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, "exception", "KeyboardInterrupt", id="SIGINT"
        ),
        pytest.param("threading.Thread(target=sys.exit).start(); sys.exit(3)", 3, "exit", "", id="sys.exit"),
    ],
)
def test_an_end_in_python_loses_nothing_and_stays_the_program_s_own(
    body: str, code: int, reason: str, error: str, tmp_path: Path, logdir: str
) -> None:
    done = run_script(tmp_path, logdir, body)
    assert done.returncode == code
    assert done.stderr.count('  File "') == (1 if error else 0)  # The program's own line, and none of ours.
    assert done.stderr.splitlines()[-1:] == ([f"{error}: mine" if code == 1 else error] if error else [])
    assert calls_in(logdir) == 5000
    last = events_in(logdir)[-1]
    assert isinstance(last, RunEnd)
    assert (last.reason, last.error) == (reason, error)


def test_a_thread_that_runs_on_does_not_hold_up_the_end(logdir: str) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    stops = threading.Event()

    def work_on() -> None:
        while not stops.is_set():
            model(images())

    thread = threading.Thread(target=work_on)
    thread.start()
    try:
        time.sleep(0.1)
        Proxy._installed.take_down("exit")
        size = sum(path.stat().st_size for path in Path(logdir).glob("*/*.jsonl"))
        time.sleep(0.1)
    finally:
        stops.set()
        thread.join()
    assert [path.stat().st_size for path in Path(logdir).glob("*/*.jsonl")] == [size]
    assert isinstance(events_in(logdir)[-1], RunEnd)


def test_two_programs_in_one_logdir_leave_two_runs(logdir: str) -> None:
    def work() -> None:
        Proxy._installed.take_down()
        from proxy_wrapper.process.launch import Launch

        Launch.of_this_process().renewed().announce()
        traced_run(logdir)
        Proxy._installed.take_down("exit")

    assert [code_of(child) for child in [run_in_child(work) for _ in range(3)]] == [0, 0, 0]
    paths = list(Path(logdir).glob("*/*.jsonl"))
    assert len({path.parent for path in paths}) == len(paths) == 3


def test_interrupts_at_any_point_leave_tracing_whole(logdir: str, capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell has its background jobs ignore it.
        model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level="DEBUG")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        caught = 0
        while caught < 10:
            try:
                while True:
                    optimizer.zero_grad()
                    model(images()).sum().backward()
                    optimizer.step()
            except KeyboardInterrupt:  # noqa: PERF203
                caught += 1
                # As PyTorch's own `no_grad` begins or ends, one may leave gradients off: in a plain program, too.
                torch.set_grad_enabled(True)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        model(torch.zeros(77, 1, 8, 8))
        Proxy._installed.take_down("exit")

    child = run_in_child(work)
    chance = random.Random(5)
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        time.sleep(chance.uniform(0.02, 0.06) if Path(logdir).exists() else 0.02)
        if Path(logdir).exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGINT)
    found = events_in(logdir)
    assert isinstance(found[-1], RunEnd)
    assert [event for event in found if isinstance(event, Problem)] == []
    assert any(isinstance(event, CallModule) and event.inputs == ["float32[77, 1, 8, 8]"] for event in found)
    assert "proxy_wrapper" not in capfd.readouterr().err


# Disks.


def limit_file_size(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def test_a_full_disk_that_is_freed_again_costs_only_what_happened_meanwhile(
    logdir: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_writer, "FIRST_RETRY_S", 0.1)

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        before, middle, after = plain_run(), plain_run(), plain_run()
        assert is_same(traced_run(logdir), before)
        Proxy.flush()
        (path,) = Path(logdir).glob("*/*.jsonl")
        limit_file_size(path.stat().st_size + 100)
        assert is_same(traced_run(logdir, "DEBUG"), middle)
        Proxy.flush()
        limit_file_size(resource.RLIM_INFINITY)
        time.sleep(0.5)
        assert is_same(traced_run(logdir), after)
        Proxy._installed.take_down("exit")

    assert code_of(run_in_child(work)) == 0
    error = capfd.readouterr().err
    assert error.count("\n") == error.count("proxy_wrapper: ") == 1
    assert "File too large" in error
    assert "Training goes on" in error
    (path,) = Path(logdir).glob("*/*.jsonl")
    found = msgspec.json.Decoder(AnyEvent).decode_lines(path.read_bytes())  # No line is cut.
    losses = [event.message for event in found if isinstance(event, Problem) and "were lost" in event.message]
    assert len(losses) == 1
    assert sum(isinstance(event, CallModule) for event in found) == 30
    assert {module.name for module in summarize(Trace.open(logdir)).processes[0].modules} >= {"net", "net_1", "net_2"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_text_log_on_a_full_disk_is_told_once(logdir: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "full.log"
    log.symlink_to("/dev/full")
    assert is_same(traced_run(str(log), "DEBUG"), plain_run())
    Proxy.flush()
    assert capfd.readouterr().err.count("No space left on device") == 1


def without_rights(folder: Path) -> Path:
    folder.mkdir()
    folder.chmod(0o555)
    return folder / "trace"


def a_file(path: Path) -> Path:
    path.write_text("mine")
    return path


@pytest.mark.parametrize(
    ("make", "error"),
    [
        pytest.param(lambda tmp_path: without_rights(tmp_path / "locked"), "PermissionError", id="without rights"),
        pytest.param(lambda tmp_path: a_file(tmp_path / "file"), "Error", id="a file"),
        pytest.param(lambda tmp_path: a_file(tmp_path / "file") / "below", "NotADirectoryError", id="below a file"),
        pytest.param(lambda tmp_path: "/proc/trace", "FileNotFoundError", id="a file system that takes no files"),
    ],
)
def test_a_logdir_that_cannot_be_made_is_told_once(
    make: Callable[[Path], Path], error: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        Proxy._installed.get()
        if os.geteuid() == 0 and error == "PermissionError":
            os.seteuid(65534)  # The rights of files say nothing to root.
        for _ in range(2):
            assert is_same(traced_run(logdir), plain_run())
            Proxy.flush()

    logdir = str(make(tmp_path))
    assert code_of(run_in_child(work)) == 0
    said = capfd.readouterr().err
    assert said.count("proxy_wrapper: ") == said.count("\n") == 1
    assert error in said
    if (tmp_path / "file").exists():
        assert (tmp_path / "file").read_text() == "mine"


def test_a_logdir_that_is_removed_ends_the_trace_and_is_not_made_again(
    logdir: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert is_same(traced_run(logdir), plain_run())
    Proxy.flush()
    shutil.rmtree(logdir)
    for _ in range(2):
        assert is_same(traced_run(logdir), plain_run())
        Proxy.flush()
    said = capfd.readouterr().err
    assert said.count("proxy_wrapper: ") == said.count("\n") == 1
    assert "has been deleted" in said
    assert not Path(logdir).exists()


def test_a_process_without_a_free_file_descriptor_gets_its_trace_later(
    logdir: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_writer, "FIRST_RETRY_S", 0.1)

    def work() -> None:
        taken = []
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        expected = plain_run()
        assert is_same(traced_run(logdir), expected)
        Proxy.flush()
        for descriptor in taken:
            os.close(descriptor)
        assert is_same(traced_run(logdir), expected)
        Proxy._installed.take_down("exit")

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, limits[1]), limits[1]))
    try:
        assert code_of(run_in_child(work)) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert capfd.readouterr().err.count("Too many open files") == 1
    assert calls_in(logdir) == 15
    (loss,) = (event for event in events_in(logdir) if isinstance(event, Problem) and "were lost" in event.message)
    assert "steps 0 to 2 were lost (OSError: [Errno 24]" in loss.message


# Observers.


def test_a_crashing_observer_is_dropped_and_reported_once(capfd: pytest.CaptureFixture[str], logdir: str) -> None:
    class Crashes:
        def observe(self, event: Event) -> None:
            raise ZeroDivisionError("mine")

        def flush(self) -> None: ...
        def close(self) -> None: ...

    Proxy.observe(Crashes())
    assert is_same(traced_run(logdir), plain_run())
    Proxy.flush()
    assert capfd.readouterr().err.count("the observer Crashes") == 1
    found = events_in(logdir)
    assert sum(isinstance(event, CallModule) for event in found) == 15
    assert any(isinstance(event, Problem) and "ZeroDivisionError: mine" in event.message for event in found)


def test_a_slow_observer_gets_every_event_and_so_does_the_trace(logdir: str) -> None:
    class Slow:
        def __init__(self) -> None:
            self.calls = 0

        def observe(self, event: Event) -> None:
            self.calls += isinstance(event, CallModule)
            time.sleep(0.001)

        def flush(self) -> None: ...
        def close(self) -> None: ...

    slow = Slow()
    Proxy.observe(slow)
    assert is_same(traced_run(logdir), plain_run())
    Proxy.flush()
    assert slow.calls == calls_in(logdir) == 15


def test_no_thread_is_left_when_tracing_ends(logdir: str) -> None:
    before = count_threads()
    traced_run(logdir)
    Proxy._installed.take_down()
    assert count_threads() == before
    last = events_in(logdir)[-1]
    assert isinstance(last, RunEnd)
    assert last.reason == "unproxied"


def test_a_mistake_of_ours_ends_the_trace_and_says_so(logdir: str, capfd: pytest.CaptureFixture[str]) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    model(images())
    Proxy._installed.get().fail(ZeroDivisionError("ours"))
    model(images())
    Proxy._installed.take_down("exit")
    assert capfd.readouterr().err.count("tracing failed with ZeroDivisionError: ours") == 1
    problem, end = events_in(logdir)[-2:]
    assert isinstance(problem, Problem)
    assert isinstance(end, RunEnd)
    assert end.reason == "failed"
    assert calls_in(logdir) == 5


def test_images_and_secrets_are_not_in_the_trace(logdir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace holds what is needed to read it, never contents of tensors or the environment."""
    monkeypatch.setenv("A_SECRET_TOKEN", "hunter2")
    traced_run(logdir)
    Proxy.flush()
    (path,) = Path(logdir).glob("*/*.jsonl")
    assert "hunter2" not in path.read_text()
