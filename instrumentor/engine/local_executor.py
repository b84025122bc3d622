"""The local engine: a pool of processes."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor


def make_local_executor(jobs: int) -> ProcessPoolExecutor:
    """A pool of processes on this machine."""
    # Forking is cheap, but safe only with a single thread; a fork server starts from a clean process.
    method = "spawn"
    if sys.platform == "linux":
        method = "fork" if threading.active_count() == 1 else "forkserver"
    context = multiprocessing.get_context(method)
    if method == "fork":
        import libcst.helpers  # noqa: F401 - imported once, not in each process
    elif method == "forkserver":
        multiprocessing.set_forkserver_preload(["instrumentor.engine.work", "libcst.helpers"])
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_ignore_interrupts)


def _ignore_interrupts() -> None:
    # Ctrl-C reaches all processes of a terminal; the parent decides when this one stops.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
