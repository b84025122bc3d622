"""Runs many tasks through an engine; outcomes come in task order, with a bounded number in progress."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from instrumentor.engine.executors import Engine
    from instrumentor.engine.outcome import Outcome, Task
    from instrumentor.engine.workers import Workers

# The maximum number of known outcomes that wait for earlier ones.
_MAX_SEGMENT = 1024
_SEGMENTS_PER_JOB = 3


class Done(NamedTuple):
    """A task, its outcome, and whether the outcome was already known."""

    task: Task
    outcome: Outcome
    was_known: bool


@dataclass
class _Segment:
    """Consecutive tasks: those with a known outcome, and those that wait for one call."""

    tasks: list[Task] = field(default_factory=list)
    known: list[Outcome | None] = field(default_factory=list)
    was_known: list[bool] = field(default_factory=list)
    future: Future[list[Outcome]] | None = None

    @property
    def missing(self) -> list[Task]:
        return [task for task, outcome in zip(self.tasks, self.known, strict=True) if outcome is None]


class BatchRunner:
    """Runs tasks through an engine; a context manager that stops the engine at the end."""

    def __init__(self, engine: Engine, jobs: int) -> None:
        """Set the engine, which is started only when there is enough work for it."""
        self._engine = engine
        self._jobs = jobs
        self._workers: Workers | None = None

    def __enter__(self) -> BatchRunner:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._workers is not None:
            self._workers.stop(cancel=kind is not None)

    def run(self, tasks: Iterable[Task], find: Callable[[Task], Outcome | None]) -> Iterator[Done]:
        """Process tasks.

        Args:
            tasks: consumed lazily.
            find: looks up a task's outcome; None if it is not known.

        Yields:
            Every task with its outcome, in the order of `tasks`.
        """
        waiting: deque[_Segment] = deque()
        for segment in self._segments(tasks, find):
            if missing := segment.missing:
                segment.future = self._started().submit(missing)
            waiting.append(segment)
            while waiting and (len(waiting) > _SEGMENTS_PER_JOB * self._jobs or self._is_done(waiting[0])):
                yield from self._finish(waiting.popleft(), waiting)
        while waiting:
            yield from self._finish(waiting.popleft(), waiting)

    def _segments(self, tasks: Iterable[Task], find: Callable[[Task], Outcome | None]) -> Iterator[_Segment]:
        segment, missing = _Segment(), 0
        for task in tasks:
            if not task.path and segment.tasks:  # yield known outcomes before waiting for standard input
                yield segment
                segment, missing = _Segment(), 0
            outcome = find(task)
            segment.tasks.append(task)
            segment.known.append(outcome)
            segment.was_known.append(outcome is not None)
            missing += outcome is None
            if (missing and missing >= self._started().batch_size) or len(segment.tasks) >= _MAX_SEGMENT:
                yield segment
                segment, missing = _Segment(), 0
        if segment.tasks:
            yield segment

    def _started(self) -> Workers:
        if self._workers is None:
            from instrumentor.engine.workers import Workers

            self._workers = Workers(self._engine, self._jobs)
        return self._workers

    @staticmethod
    def _is_done(segment: _Segment) -> bool:
        return segment.future is None or segment.future.done()

    def _finish(self, segment: _Segment, others: Iterable[_Segment]) -> Iterator[Done]:
        if segment.future is not None:
            workers = self._started()
            found = iter(workers.result(segment.future, segment.missing))
            segment.known = [outcome or next(found) for outcome in segment.known]
            if workers.is_lost(segment.future):  # the tasks queued after it were lost, too
                for each in others:
                    if each.future is not None and workers.is_lost(each.future):
                        each.future = workers.submit(each.missing)
        for task, outcome, known in zip(segment.tasks, segment.known, segment.was_known, strict=True):
            assert outcome is not None
            yield Done(task, outcome, known)
