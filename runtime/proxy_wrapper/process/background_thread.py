"""A background thread that is invisible to the program."""

from __future__ import annotations

import _thread
import contextlib
import signal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CAUSED_BY_CODE: Final = frozenset(
    {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS"},
)
"""Signals that are delivered to the thread whose code caused them."""


class BackgroundThread:
    """Runs a function in the background. The program may end before it does.

    The thread is not registered in `threading`. A program that lists its threads, or waits for all others to end, does
    not find it, and `threading.setprofile` and `settrace` do not affect it. It takes no signals, so a signal that the
    program has blocked in all of its threads stays pending.

    The function must not call `threading.current_thread()`, which would register the thread.
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
        """Run the function. Python before 3.13 releases the lock of `_set_sentinel` when the thread ends."""
        self._ident = _thread.get_ident()
        handle = _thread._set_sentinel()  # type: ignore[attr-defined]
        handle.acquire()
        self._handle = handle
        is_running.release()
        self._function()

    def is_current(self) -> bool:
        """Whether this is the calling thread."""
        return self._ident == _thread.get_ident()

    def join(self, timeout_s: float) -> None:
        """Wait until the thread has ended or the time is up. Returns at once if it has not been started."""
        if self._handle is None:
            return
        if hasattr(_thread, "start_joinable_thread"):
            self._handle.join(timeout_s)
        elif self._handle.acquire(timeout=timeout_s):
            self._handle.release()


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block the signals that a thread started here should inherit as blocked, on systems that support it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    kept = {getattr(signal, name) for name in _CAUSED_BY_CODE if hasattr(signal, name)}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - kept)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
