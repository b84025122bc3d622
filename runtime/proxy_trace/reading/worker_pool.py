"""Processes that call functions for another one."""

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
    """Nobody waits for the result any more."""


class WorkerPool:
    """Processes, what they count together, and how they are told to stop."""

    def __init__(self, jobs: int) -> None:
        """Start no more processes than `jobs`, each when there is something for it to do."""
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
        """As `Workers.map` does."""
        try:
            with _interrupts_held_back():
                futures = [self._executor.submit(_Worker.call, function, each) for each in inputs]
            futures.reverse()
            while futures:  # What has been given out is kept no longer.
                future = futures.pop()
                while not wait([future], None if on_progress is None else _PROGRESS_S).done:
                    if on_progress is not None:
                        on_progress(self._bytes_read.value)
                yield future.result()
        except BrokenProcessPool as error:
            raise WorkerDiedError from error

    def stop(self) -> None:
        """End all processes, those that still work as well."""
        self._is_stopped.set()
        self._executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block. Processes that start in it are not interrupted at all."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    """A process that works for another one. What it was given at its start has no place but the class."""

    _bytes_read: ClassVar[Any]
    _is_stopped: ClassVar[Event]

    @classmethod
    def begin(cls, bytes_read: Any, is_stopped: Event) -> None:
        """Keep what this process shares with that which started it."""
        cls._bytes_read, cls._is_stopped = bytes_read, is_stopped
        # Ctrl-C goes to all processes of a terminal; that which waits for the results decides what becomes of it.
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
    """End this process when that which started it has: if it was killed, nobody else would."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_any([parent.sentinel])
        os._exit(1)
