"""A thread beside the program's that the program does not meet."""

from __future__ import annotations

import _thread
import contextlib
import signal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OF_THE_CODE_THAT_RUNS: Final = frozenset(
    {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS"},
)
"""Signals that come to the thread whose code has raised them."""


class BackgroundThread:
    """Runs a function beside the program, which may end meanwhile.

    `threading` is not told: a program that lists its threads, or waits until there are no others, finds none of ours,
    and its `threading.setprofile` and `settrace` are not for it. It takes no signals: one that the program has blocked
    in all of its threads is to wait until the program takes it.

    So the function must not ask for `threading.current_thread()`, which would add the thread to the list.
    """

    def __init__(self, function: Callable[[], None]) -> None:
        """Prepare to run `function`."""
        self._function = function
        self._ident = 0
        self._handle: Any = None

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: if there are too many threads, or the interpreter is shutting down.
        """
        with _signals_blocked():
            if hasattr(_thread, "start_joinable_thread"):
                self._handle = _thread.start_joinable_thread(self._function, daemon=True)
                self._ident = self._handle.ident
            else:
                is_running = _thread.allocate_lock()
                is_running.acquire()
                _thread.start_new_thread(self._run, (is_running,))
                is_running.acquire()

    def _run(self, is_running: _thread.LockType) -> None:
        """Python before 3.13 releases the lock of `_set_sentinel` as the last thing of the thread."""
        self._ident = _thread.get_ident()
        handle = _thread._set_sentinel()  # type: ignore[attr-defined]
        handle.acquire()
        self._handle = handle
        is_running.release()
        self._function()

    def is_current(self) -> bool:
        """Whether it is this thread that asks."""
        return self._ident == _thread.get_ident()

    def join(self, timeout_s: float) -> None:
        """Wait until the thread has ended, or the time is over; not at all for one that has not been started."""
        if self._handle is None:
            return
        if hasattr(_thread, "start_joinable_thread"):
            self._handle.join(timeout_s)
        elif self._handle.acquire(timeout=timeout_s):
            self._handle.release()


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block what a thread started here is to block as well, where the system has such a thing."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    kept = {getattr(signal, name) for name in _OF_THE_CODE_THAT_RUNS if hasattr(signal, name)}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - kept)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
