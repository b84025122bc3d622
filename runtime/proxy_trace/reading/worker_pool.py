"""Worker processes that call functions."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for_any
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from proxy_trace.errors import WorkerDiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.synchronize import Event

    from proxy_trace.reading.report import Report

T = TypeVar("T")
R = TypeVar("R")

_PROGRESS_S: Final = 0.1


class _Stopped(Exception):  # noqa: N818  Nothing is wrong.
    """The result is no longer needed."""


class WorkerPool:
    """Worker processes, their common count of bytes, and their stop signal."""

    def __init__(self, jobs: int) -> None:
        """Start at most `jobs` processes, each when there is work for it."""
        context = multiprocessing.get_context("spawn")
        self._bytes_read: Any = context.Value("q")
        self._is_stopped = context.Event()
        initial = (self._bytes_read, self._is_stopped)
        self._executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=_Worker.begin, initargs=initial)

    def map(
        self,
        function: Callable[[T, Report], R],
        inputs: Sequence[T],
        on_progress: Callable[[int], None] | None,
    ) -> Iterator[R]:
        """Like `Workers.map`."""
        try:
            with _interrupts_held_back():
                futures = [self._executor.submit(_Worker.call, function, each) for each in inputs]
            futures.reverse()
            while futures:  # Yielded results are released.
                future = futures.pop()
                while not wait([future], None if on_progress is None else _PROGRESS_S).done:
                    if on_progress is not None:
                        on_progress(self._bytes_read.value)
                yield future.result()
        except BrokenProcessPool as error:
            raise WorkerDiedError from error

    def stop(self) -> None:
        """End all processes, including those still working."""
        self._is_stopped.set()
        self._executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block. Processes started inside ignore it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    """The state of a worker process. Its class holds what it received at its start."""

    _bytes_read: ClassVar[Any]
    _is_stopped: ClassVar[Event]

    @classmethod
    def begin(cls, bytes_read: Any, is_stopped: Event) -> None:
        """Store what this process shares with its parent."""
        cls._bytes_read, cls._is_stopped = bytes_read, is_stopped
        # Ctrl-C reaches all processes of a terminal; the parent decides what to do.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_end_with_parent, daemon=True).start()

    @classmethod
    def call(cls, function: Callable[[T, Report], R], each: T) -> R:
        """Call `function` in this process."""
        return function(each, cls._note)

    @classmethod
    def _note(cls, bytes_read: int) -> None:
        if cls._is_stopped.is_set():
            raise _Stopped
        with cls._bytes_read.get_lock():
            cls._bytes_read.value += bytes_read


def _end_with_parent() -> None:
    """End this process when its parent has ended: nobody else would, if the parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_any([parent.sentinel])
        os._exit(1)
