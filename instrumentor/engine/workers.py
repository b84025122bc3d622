"""Where tasks are processed: in this process if there is little to do, otherwise through an engine.

This module imports the whole analysis. It is imported only when the first task must be processed, since kept outcomes
need neither.
"""

from __future__ import annotations

import gc
import time
from concurrent.futures import BrokenExecutor, Future
from typing import TYPE_CHECKING

from instrumentor.engine.outcome import Failure, Outcome
from instrumentor.engine.work import process_batch
from instrumentor.paths.file_state import FileState
from instrumentor.resolve.libraries import Libraries

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from instrumentor.engine.executors import Engine
    from instrumentor.engine.outcome import Task

# Starting processes pays off only above about this much work.
_ALONE_S = 0.5
_SMALL_BATCH = 8


class Workers:
    """Processes batches of tasks; starts an engine when there is enough work for it."""

    def __init__(self, engine: Engine, jobs: int) -> None:
        self._engine = engine
        self._jobs = jobs
        self._executor: Executor | None = None
        self._spent_s = 0.0
        self._libraries = Libraries()
        # Everything imported by now stays alive. Freezing spares each collection from traversing it, and forked
        # processes from copying the shared memory.
        gc.freeze()

    @property
    def batch_size(self) -> int:
        """The best number of tasks to submit together."""
        # While this process works alone, small batches show progress and reveal sooner that there is much to do.
        return _SMALL_BATCH if self._engine.is_local and self._executor is None else self._engine.batch

    def submit(self, tasks: list[Task]) -> Future[list[Outcome]]:
        """Process tasks, at once in this process or in the engine; pass the returned future to `result`."""
        if self._engine.is_local and (self._jobs == 1 or self._spent_s < _ALONE_S):
            started = time.perf_counter()
            done: Future[list[Outcome]] = Future()
            done.set_result(process_batch(tasks, self._libraries))
            self._spent_s += time.perf_counter() - started
            return done
        executor = self._executor or self._restart()
        try:
            return executor.submit(process_batch, tasks)
        except BrokenExecutor:
            return self._restart().submit(process_batch, tasks)

    def result(self, future: Future[list[Outcome]], tasks: list[Task]) -> list[Outcome]:
        """Wait for the outcomes of submitted tasks."""
        try:
            return future.result()
        except BrokenExecutor:
            return self._process_one_by_one(tasks)

    @staticmethod
    def is_lost(future: Future[list[Outcome]]) -> bool:
        """Whether tasks were lost because the engine broke on others; they must be submitted again."""
        return future.done() and isinstance(future.exception(), BrokenExecutor)

    def stop(self, *, cancel: bool) -> None:
        """Stop the engine; with `cancel`, drop the tasks that it has not begun."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=cancel)

    def _process_one_by_one(self, tasks: list[Task]) -> list[Outcome]:
        """Find the script that killed a worker: each one runs alone, and one that does so again is to blame."""
        self._restart()
        return [self._process_alone(task) for task in tasks]

    def _process_alone(self, task: Task) -> Outcome:
        assert self._executor is not None
        try:
            return self._executor.submit(process_batch, [task]).result()[0]
        except BrokenExecutor:
            self._restart()
            return _lost(task)

    def _restart(self) -> Executor:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor = self._engine.make(self._jobs)
        return self._executor


def _lost(task: Task) -> Outcome:
    message = (
        "the process that worked on it died, perhaps for want of memory or over code nested very deeply;"
        " exclude the file, or run it alone to see more"
    )
    return Outcome("failed", FileState(task.path, None), failure=Failure(f"{task.shown}: {message}", message))
