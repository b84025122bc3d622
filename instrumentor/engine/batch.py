"""Many tasks through an engine: outcomes in the tasks' order, a bounded number of them at a time."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.engine.work import Failure, FileState, Outcome, process_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor, Future

    from instrumentor.engine.executors import Engine
    from instrumentor.engine.work import Task

# Starting processes pays from about this much work on; what takes less is done in this one.
_ALONE_S = 0.5
# Outcomes that are known already wait for those before them; so many at most.
_MAX_SEGMENT = 1024
_SEGMENTS_PER_JOB = 3
_SMALL_BATCH = 8


class Done(NamedTuple):
    """A task, its outcome, and whether that was known already."""

    task: Task
    outcome: Outcome
    was_known: bool


@dataclass
class _Segment:
    """Some tasks in a row: those whose outcome was known, and those that wait for one call."""

    tasks: list[Task] = field(default_factory=list)
    known: list[Outcome | None] = field(default_factory=list)
    was_known: list[bool] = field(default_factory=list)
    future: Future[list[Outcome]] | None = None

    @property
    def missing(self) -> list[Task]:
        return [task for task, outcome in zip(self.tasks, self.known, strict=True) if outcome is None]


class BatchRunner:
    """Runs tasks through an engine; a context manager, which stops it."""

    def __init__(self, engine: Engine, jobs: int) -> None:
        """Take an engine, which is started when there is work enough for it."""
        self._engine = engine
        self._jobs = jobs
        self._executor: Executor | None = None
        self._spent_s = 0.0

    def __enter__(self) -> BatchRunner:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=kind is not None)

    def run(self, tasks: Iterable[Task], find: Callable[[Task], Outcome | None]) -> Iterator[Done]:
        """Process tasks.

        Args:
            tasks: read as they are needed, never all at once.
            find: looks a task's outcome up where it may be known already.

        Yields:
            Every task with its outcome, in the order of `tasks` whatever finishes first.
        """
        waiting: deque[_Segment] = deque()
        for segment in self._segments(tasks, find):
            self._submit(segment)
            waiting.append(segment)
            while waiting and (len(waiting) > _SEGMENTS_PER_JOB * self._jobs or self._is_done(waiting[0])):
                yield from self._finish(waiting.popleft(), waiting)
        while waiting:
            yield from self._finish(waiting.popleft(), waiting)

    def _segments(self, tasks: Iterable[Task], find: Callable[[Task], Outcome | None]) -> Iterator[_Segment]:
        segment, missing = _Segment(), 0
        for task in tasks:
            if not task.path and segment.tasks:  # whoever waits for standard input is told first what is known
                yield segment
                segment, missing = _Segment(), 0
            outcome = find(task)
            segment.tasks.append(task)
            segment.known.append(outcome)
            segment.was_known.append(outcome is not None)
            missing += outcome is None
            if missing >= self._batch_size() or len(segment.tasks) >= _MAX_SEGMENT:
                yield segment
                segment, missing = _Segment(), 0
        if segment.tasks:
            yield segment

    def _batch_size(self) -> int:
        # While this process works alone, small pieces show progress and tell sooner that there is much to do.
        return _SMALL_BATCH if self._engine.is_local and self._executor is None else self._engine.batch

    def _submit(self, segment: _Segment) -> None:
        missing = segment.missing
        if not missing:
            return
        if self._engine.is_local and (self._jobs == 1 or self._spent_s < _ALONE_S):
            started = time.perf_counter()
            self._put(segment, process_batch(missing))
            self._spent_s += time.perf_counter() - started
            return
        if self._executor is None:
            self._executor = self._engine.make(self._jobs)
        try:
            segment.future = self._executor.submit(process_batch, missing)
        except BrokenExecutor:
            self._restart()
            segment.future = self._executor.submit(process_batch, missing)

    @staticmethod
    def _put(segment: _Segment, outcomes: list[Outcome]) -> None:
        found = iter(outcomes)
        segment.known = [outcome or next(found) for outcome in segment.known]
        segment.future = None

    @staticmethod
    def _is_done(segment: _Segment) -> bool:
        return segment.future is None or segment.future.done()

    def _finish(self, segment: _Segment, others: Iterable[_Segment]) -> Iterator[Done]:
        if segment.future is not None:
            try:
                self._put(segment, segment.future.result())
            except BrokenExecutor:
                self._put(segment, self._process_one_by_one(segment.missing, others))
        for task, outcome, known in zip(segment.tasks, segment.known, segment.was_known, strict=True):
            assert outcome is not None
            yield Done(task, outcome, known)

    def _process_one_by_one(self, tasks: list[Task], others: Iterable[_Segment]) -> list[Outcome]:
        """Find the script that a worker died over: each goes alone, and one that does it again is to blame."""
        self._restart()
        outcomes = []
        for task in tasks:
            assert self._executor is not None
            try:
                outcomes.extend(self._executor.submit(process_batch, [task]).result())
            except BrokenExecutor:
                self._restart()
                outcomes.append(_lost(task))
        # What waited behind it broke with it.
        for segment in others:
            if segment.future is not None and segment.future.done() and segment.future.exception() is not None:
                segment.future = None
                self._submit(segment)
        return outcomes

    def _restart(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor = self._engine.make(self._jobs)


def _lost(task: Task) -> Outcome:
    message = (
        "the process that worked on it died, perhaps for want of memory or over code nested very deeply;"
        " exclude the file, or run it alone to see more"
    )
    return Outcome("failed", FileState(task.path, None), failure=Failure(f"{task.shown}: {message}", message))
