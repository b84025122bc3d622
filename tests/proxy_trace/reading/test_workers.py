"""Several files at a time: in order, with progress, and with an end whatever happens."""

from __future__ import annotations

import inspect
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from proxy_trace import errors
from proxy_trace.cli import run_command
from proxy_trace.reading.selection import GlobMatcher
from proxy_trace.reading.workers import Workers, count_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_trace.reading.report import Report

ROOT = Path(__file__).parents[3]


def doubled(number: int, report: Report) -> int:
    report(number)
    return 2 * number


def slow_at_first(number: int, report: Report) -> tuple[int, int]:
    time.sleep(0.3 if number == 0 else 0)
    return number, os.getpid()


def refuse(number: int, report: Report) -> int:
    if number:
        raise errors.UnreadableFileError(Path(f"file{number}"), OSError(5, "Input/output error"))
    time.sleep(0.3)
    return number


def die(number: int, report: Report) -> None:
    if number:
        os.kill(os.getpid(), signal.SIGKILL)


def read_for_ever(folder: Path, report: Report) -> None:
    (folder / str(os.getpid())).touch()
    while True:
        time.sleep(0.01)
        report(1)


def test_results_come_in_order_from_other_processes() -> None:
    with Workers(2) as workers:
        assert list(workers.map(doubled, range(20))) == [2 * number for number in range(20)]
        found = list(workers.map(slow_at_first, range(6)))
    assert [number for number, _ in found] == list(range(6))
    assert os.getpid() not in {process for _, process in found}


@pytest.mark.parametrize(("jobs", "inputs"), [(1, [0, 1, 2]), (4, [5])], ids=["one job", "one input"])
def test_nothing_is_started_for_one(jobs: int, inputs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "proxy_trace.reading.worker_pool", None)
    with Workers(jobs) as workers:
        assert {process for _, process in workers.map(slow_at_first, inputs)} == {os.getpid()}


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_is_what_all_have_read(jobs: int) -> None:
    seen: list[int] = []
    with Workers(jobs, seen.append) as workers:
        list(workers.map(doubled, [1, 2, 3]))
        list(workers.map(slow_at_first, [0, 0]))  # Long enough to look at what has been read.
    assert seen[-1] == 6
    assert seen == sorted(seen)


LOADED = """
import sys
from proxy_trace.reading.workers import Workers

def loaded(_, report):
    return list(sys.modules)

if __name__ == "__main__":
    with Workers(2) as workers:
        for modules in workers.map(loaded, [1, 2]):
            print(*modules)
"""


def test_processes_load_little(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(LOADED)
    said = subprocess.run([sys.executable, program], env=environment(), check=True, capture_output=True, text=True)
    loaded = [{name.partition(".")[0] for name in line.split()} for line in said.stdout.splitlines()]
    assert len(loaded) == 2
    for modules in loaded:
        assert "proxy_trace" in modules
        assert not {"torch", "numpy", "rich", "typer", "libcst", "instrumentor"} & modules


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_process_raises_is_raised_the_first_of_several(jobs: int) -> None:
    with Workers(jobs) as workers, pytest.raises(errors.UnreadableFileError, match="file1: cannot be read: Input/outp"):
        list(workers.map(refuse, [0, 1, 2]))


def test_a_process_that_dies_is_told() -> None:
    with Workers(2) as workers, pytest.raises(errors.WorkerDiedError, match="--jobs 1"):
        list(workers.map(die, [0, 1, 2]))


def test_all_errors_come_whole_from_another_process() -> None:
    for name, error_class in inspect.getmembers(errors, inspect.isclass):
        if issubclass(error_class, errors.TraceError):
            error = error_class.__new__(error_class)
            error.args, error.__dict__["reason"] = (f"{name}: why",), "why"
            copy = pickle.loads(pickle.dumps(error))
            assert (type(copy), str(copy), copy.reason) == (error_class, f"{name}: why", "why")


def test_globs_go_to_other_processes() -> None:
    copy = pickle.loads(pickle.dumps(GlobMatcher(["model.fc*", "*bias"])))
    assert [copy(name) for name in ("model.fc.weight", "model.conv.bias", "model.conv.weight")] == [True, True, False]


PROGRAM = """
import sys
from pathlib import Path
from proxy_trace.reading.workers import Workers
from tests.proxy_trace.reading.test_workers import read_for_ever

if __name__ == "__main__":
    try:
        with Workers(2) as workers:
            list(workers.map(read_for_ever, [Path(sys.argv[1])] * 2))
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize(("number", "said"), [(signal.SIGINT, "interrupted\n"), (signal.SIGKILL, "")])
def test_no_process_is_left_behind(number: signal.Signals, said: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    folder = tmp_path / "processes"
    folder.mkdir()
    parent = subprocess.Popen(
        [sys.executable, program, folder],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: len(list(folder.iterdir())) == 2)
    if number == signal.SIGINT:
        os.killpg(parent.pid, number)  # As a terminal does.
    else:
        parent.kill()
    out, err = parent.communicate(timeout=30)
    assert out == said
    # What shares semaphores among processes says so if it has to take them away.
    assert "Traceback" not in err if number == signal.SIGKILL else err == ""
    children = [int(child.name) for child in folder.iterdir()]
    until(lambda: not any(map(is_running, children)))


def test_an_interrupted_command_says_so_in_one_line(
    small_trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Workers, "map", interrupt)
    assert run_command(["summary", str(small_trace)]) == 130
    assert capsys.readouterr() == ("", "proxy-trace: interrupted\n")


def until(is_so: Callable[[], Any]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_small_runs_start_no_processes_unless_asked_for() -> None:
    assert count_jobs(None, 1000) == 1
    assert count_jobs(3, 1000) == 3
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert count_jobs(None, 1 << 30) == processors
