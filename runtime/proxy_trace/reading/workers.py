"""Does the same to each of several files: one after another, or in processes of their own.

What is worked out must not depend on which: a function gets what it needs, gives back what it found, and knows of no
other call. The processes are started afresh, since a fork would copy whatever threads and locks the caller has.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Self

    from proxy_trace.reading.report import Report
    from proxy_trace.reading.worker_pool import WorkerPool

T = TypeVar("T")
R = TypeVar("R")

_PAYS_FROM_BYTES: Final = 1 << 24
"""What is smaller has been read before other processes have started."""


def count_jobs(asked: int | None, total_bytes: int) -> int:
    """How many processes work at a time: as many as were asked for, else one for each processor where that pays."""
    if asked is not None:
        return asked
    if total_bytes < _PAYS_FROM_BYTES:
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """Calls functions for each of several inputs. A context manager; at its end nothing runs any more.

    Attributes:
        jobs: how many calls are made at a time.
        report: what a call in this process is given to tell how much it has read.
    """

    def __init__(
        self, jobs: int = 1, on_progress: Callable[[int], None] | None = None, report: Report | None = None
    ) -> None:
        """Start nothing yet.

        Args:
            jobs: how many calls are made at a time, each in a process of its own; 1: all in this one.
            on_progress: called now and then with the number of bytes read so far, over all calls.
            report: called instead with those read since the last time, as a call that makes further calls is told to.
        """
        self.jobs = jobs
        self._on_progress = on_progress
        self.report = report or self._note
        self._bytes_read = 0
        self._pool: WorkerPool | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.stop()

    def map(self, function: Callable[[T, Report], R], inputs: Sequence[T]) -> Iterator[R]:
        """Yield what `function` gives for each input, in their order.

        Args:
            function: is called with an input and with what to call while it reads. One of a module, if there are
                several jobs, as other processes look it up there; what it is given and gives back is pickled.
            inputs: one for each call. A single one is worked on in this process.

        Raises:
            WorkerDiedError: if a process died.
            Exception: what the function raises, of several calls the first of those that did.
        """
        if self.jobs == 1 or len(inputs) < 2:
            for each in inputs:
                yield function(each, self.report)
            return
        if self._pool is None:
            # Loading what it takes is a good part of a short command.
            from proxy_trace.reading.worker_pool import WorkerPool

            self._pool = WorkerPool(self.jobs)
        yield from self._pool.map(function, inputs, self._on_progress)

    def _note(self, bytes_read: int) -> None:
        self._bytes_read += bytes_read
        if self._on_progress is not None:
            self._on_progress(self._bytes_read)
