"""Processes several files alike: one after another, or in worker processes.

Results must not depend on which: a function gets everything it needs, returns what it found, and knows of no other
call. Workers are spawned, because a fork would copy the caller's threads and locks.
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
"""A smaller input is read before other processes would have started."""


def count_jobs(asked: int | None, total_bytes: int) -> int:
    """The number of parallel processes: as requested, else one per processor if that pays off."""
    if asked is not None:
        return asked
    if total_bytes < _PAYS_FROM_BYTES:
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """Calls functions for several inputs. A context manager; nothing runs after it exits.

    Attributes:
        jobs: the number of parallel calls.
        report: the progress callback for calls in this process.
    """

    def __init__(
        self, jobs: int = 1, on_progress: Callable[[int], None] | None = None, report: Report | None = None
    ) -> None:
        """Start nothing yet.

        Args:
            jobs: the number of parallel calls, each in its own process; 1 for all calls in this process.
            on_progress: called now and then with the total number of bytes read so far.
            report: called instead with the bytes read since its last call, for calls that make further calls.
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
        """Yield the results of `function` for the inputs, in order.

        Args:
            function: called with an input and a progress callback. With several jobs it must belong to a module, where
                other processes look it up; its inputs and results are pickled.
            inputs: one per call. A single one is processed in this process.

        Raises:
            WorkerDiedError: if a process died.
            Exception: an exception of the function; the first one in order.
        """
        if self.jobs == 1 or len(inputs) < 2:
            for each in inputs:
                yield function(each, self.report)
            return
        if self._pool is None:
            # Importing this takes a good part of a short command.
            from proxy_trace.reading.worker_pool import WorkerPool

            self._pool = WorkerPool(self.jobs)
        yield from self._pool.map(function, inputs, self._on_progress)

    def _note(self, bytes_read: int) -> None:
        self._bytes_read += bytes_read
        if self._on_progress is not None:
            self._on_progress(self._bytes_read)
