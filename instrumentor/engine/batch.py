"""Many tasks through an engine: outcomes in the tasks' order, a bounded number of them at a time."""

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

# Outcomes that are known already wait for those before them; so many at most.
_MAX_SEGMENT = 1024
_SEGMENTS_PER_JOB = 3


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
        self._workers: Workers | None = None

    def __enter__(self) -> BatchRunner:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._workers is not None:
            self._workers.stop(cancel=kind is not None)

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
            if not task.path and segment.tasks:  # whoever waits for standard input is told first what is known
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
            if workers.is_lost(segment.future):  # what waited behind it broke with it
                for each in others:
                    if each.future is not None and workers.is_lost(each.future):
                        each.future = workers.submit(each.missing)
        for task, outcome, known in zip(segment.tasks, segment.known, segment.was_known, strict=True):
            assert outcome is not None
            yield Done(task, outcome, known)
