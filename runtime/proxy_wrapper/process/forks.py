"""Keeps locks usable across `os.fork`, which copies only the calling thread, but locks in any state."""

from __future__ import annotations

import os
import threading
from typing import Final

_PATIENCE_S: Final = 5.0
"""How long a fork waits for another thread to release the lock."""


def hold_while_forking(lock: threading.RLock) -> None:
    """From now on, hold `lock` during each fork, so that the child finds it free and what it guards consistent.

    If another thread does not release it in time, it keeps the lock in the parent. In the child, where that thread does
    not exist, the lock is reset.
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
