"""Locks and `os.fork`, which copies the one thread that calls it, and locks as they are."""

from __future__ import annotations

import os
import threading
from typing import Final

_PATIENCE_S: Final = 5.0
"""How long a fork waits for another thread to finish with what the lock guards."""


def hold_while_forking(lock: threading.RLock) -> None:
    """From now on, let the thread that forks hold `lock` meanwhile, so that the child finds it free and all in order.

    A thread that does not let go of it in time keeps it in the parent; in the child, where there is no such thread, it
    is free.
    """
    if not hasattr(os, "register_at_fork"):
        return
    forking = threading.local()

    def acquire() -> None:
        forking.holds_lock = lock.acquire(timeout=_PATIENCE_S)

    def release() -> None:
        if forking.holds_lock:
            lock.release()

    def release_in_child() -> None:
        if forking.holds_lock:
            lock.release()
        else:
            lock._at_fork_reinit()  # type: ignore[attr-defined]

    os.register_at_fork(before=acquire, after_in_parent=release, after_in_child=release_in_child)
