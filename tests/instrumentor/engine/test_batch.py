"""Many tasks through an engine: in order, bounded, and whatever happens to a worker."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from instrumentor.engine import batch, work, workers
from instrumentor.engine.batch import BatchRunner
from instrumentor.engine.executors import Engine, find_engine
from instrumentor.engine.local_executor import make_local_executor
from instrumentor.engine.outcome import Outcome, Task
from instrumentor.engine.work import process_batch
from instrumentor.paths.file_state import FileState
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MODEL = b"import torch.nn as nn\n\nmodel = nn.Linear(2, 2)\nprint(model(model.weight))\n"


@pytest.fixture
def tasks(tmp_path: Path) -> list[Task]:
    made = []
    for number in range(40):
        path = tmp_path / f"f{number:02}.py"
        path.write_bytes(MODEL + b"# %d\n" % number if number % 3 else b"x = (\n")
        os.utime(path, (1e9, 1e9))  # the time of a file written just now is not told, that of an older one is
        made.append(Task(str(path), path.name, path.name, Settings()))
    return made


def unknown(task: Task) -> None:
    return None


def statuses(found: Iterator[batch.Done]) -> list[tuple[str, str]]:
    return [(done.task.shown, done.outcome.status) for done in found]


def expected(tasks: Sequence[Task]) -> list[tuple[str, str]]:
    return [(task.shown, "failed" if number % 3 == 0 else "changed") for number, task in enumerate(tasks)]


def engine_of(make: Any, batch_size: int = 4) -> Engine:
    return Engine("test", make, batch_size, is_local=False)


class Backwards(Executor):
    """Finishes what comes last first."""

    def __init__(self) -> None:
        self._waiting: list[Any] = []
        self.most = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, fn, args))
        self.most = max(self.most, len(self._waiting))
        if len(self._waiting) == 3:
            while self._waiting:
                self._finish()
        else:
            future.result = self._finish_all(future, future.result)  # type: ignore[method-assign]
        return future

    def _finish(self) -> None:
        future, fn, args = self._waiting.pop()
        future.set_result(fn(*args))

    def _finish_all(self, future: Future[Any], result: Any) -> Any:
        def finish(timeout: float | None = None) -> Any:
            while self._waiting:
                self._finish()
            return result(timeout)

        return finish


class TestOrder:
    def test_is_that_of_the_tasks_whatever_finishes_first(self, tasks: list[Task]) -> None:
        with BatchRunner(engine_of(lambda jobs: Backwards()), jobs=2) as runner:
            assert statuses(runner.run(tasks, unknown)) == expected(tasks)

    def test_alone(self, tasks: list[Task]) -> None:
        with BatchRunner(find_engine("local"), jobs=1) as runner:
            assert statuses(runner.run(tasks, unknown)) == expected(tasks)

    def test_what_is_known_is_not_worked_on(self, tasks: list[Task]) -> None:
        def find(task: Task) -> Outcome | None:
            return Outcome("unchanged", FileState(task.path, b"")) if task.shown.endswith("5.py") else None

        with BatchRunner(engine_of(ThreadPoolExecutor), jobs=2) as runner:
            found = list(runner.run(tasks, find))
        assert [done.task for done in found] == tasks
        assert [done.task.shown for done in found if done.was_known] == ["f05.py", "f15.py", "f25.py", "f35.py"]
        assert all(done.outcome.status == "unchanged" for done in found if done.was_known)

    def test_tasks_are_read_as_they_are_needed(self, tasks: list[Task]) -> None:
        read = 0

        def endless() -> Iterator[Task]:
            nonlocal read
            while True:
                read += 1
                yield tasks[1]

        with BatchRunner(engine_of(ThreadPoolExecutor), jobs=2) as runner:
            found = runner.run(endless(), unknown)
            for _ in range(100):
                next(found)
        assert read < 200


class Mortal(Executor):
    """A pool whose worker dies over one script, and takes all that waits with it."""

    def __init__(self, deadly: str) -> None:
        self._deadly = deadly
        self._is_broken = False

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._is_broken:
            raise BrokenExecutor("the pool is broken")
        future: Future[Any] = Future()
        if any(task.shown == self._deadly for task in args[0]):
            self._is_broken = True
            future.set_exception(BrokenExecutor("a worker died"))
        else:
            future.set_result(fn(*args))
        return future


class TestDeath:
    def test_costs_one_script_only(self, tasks: list[Task]) -> None:
        with BatchRunner(engine_of(lambda jobs: Mortal("f10.py")), jobs=2) as runner:
            found = list(runner.run(tasks, unknown))
        wanted = [(name, "failed" if name == "f10.py" else status) for name, status in expected(tasks)]
        assert [(done.task.shown, done.outcome.status) for done in found] == wanted
        failure = found[10].outcome.failure
        assert failure is not None
        assert failure.text.startswith("f10.py: the process that worked on it died")

    @pytest.mark.skipif(sys.platform != "linux", reason="workers are forked there, and so have what is patched")
    def test_of_a_real_process_that_others_had_nothing_to_do_with(
        self, tasks: list[Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, parent, marker = work.process, os.getpid(), tmp_path / "died"

        def process(task: Task, *more: Any) -> Outcome:
            if task.shown == "f10.py" and os.getpid() != parent and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return real(task, *more)

        monkeypatch.setattr(work, "process", process)
        monkeypatch.setattr(threading, "active_count", lambda: 1)  # A thread that another test has left is no matter.
        with BatchRunner(Engine("test", make_local_executor, 8, is_local=False), jobs=2) as runner:
            assert statuses(runner.run(tasks, unknown)) == expected(tasks)
        assert marker.exists()


class TestLocalEngine:
    def test_starts_processes_only_for_much_work(self, tasks: list[Task], monkeypatch: pytest.MonkeyPatch) -> None:
        started: list[int] = []

        def make(jobs: int) -> Executor:
            started.append(jobs)
            return ThreadPoolExecutor(jobs)

        local = Engine("local", make, 32, is_local=True)
        monkeypatch.setattr(workers, "_ALONE_S", 3600.0)
        with BatchRunner(local, jobs=2) as runner:
            assert statuses(runner.run(tasks, unknown)) == expected(tasks)
        assert not started
        monkeypatch.setattr(workers, "_ALONE_S", 0.0)
        with BatchRunner(local, jobs=2) as runner:
            assert statuses(runner.run(tasks, unknown)) == expected(tasks)
        assert started == [2]

    def test_gives_what_one_process_gives(self, tasks: list[Task]) -> None:
        with make_local_executor(2) as executor:
            assert executor.submit(process_batch, tasks).result() == process_batch(tasks)

    def test_an_interrupt_ends_it(self, tasks: list[Task]) -> None:
        def interrupted() -> Iterator[Task]:
            yield from tasks
            raise KeyboardInterrupt

        runner = BatchRunner(engine_of(make_local_executor), jobs=2)
        with pytest.raises(KeyboardInterrupt), runner:
            list(runner.run(interrupted(), unknown))
        with pytest.raises(RuntimeError, match="after shutdown"):
            list(runner.run(tasks, unknown))


def test_decisions_about_what_stays_as_it_is_are_left_out_where_nobody_asks(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_bytes(
        b"from torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n        self.a = nn.Linear(1, 1)\n"
    )
    found, asked = (
        process_batch([Task(str(path), "net.py", "net.py", Settings(), goal=goal, root=str(tmp_path))])[0]
        for goal in ("instrument", "explain")
    )
    assert (found.status, found.decisions) == ("unchanged", ())
    assert (asked.status, [each.reason_code for each in asked.decisions]) == ("unchanged", ["submodule"])
