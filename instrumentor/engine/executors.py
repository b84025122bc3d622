"""Engines: where the units of work run. Any `concurrent.futures.Executor` will do."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from instrumentor.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from importlib.metadata import EntryPoint

GROUP = "instrumentor.executors"
LOCAL = "local"
# A unit of work takes milliseconds: what a scheduler costs for each task has to be shared by many of them.
LOCAL_BATCH = 32
REMOTE_BATCH = 64


@dataclass(frozen=True)
class Engine:
    """A way to run units of work.

    Attributes:
        name: what `--engine` calls it.
        make: starts it for a number of jobs at a time.
        batch: how many files go into one task.
        is_local: whether it runs in processes of this machine, so that little work is better done right here.
    """

    name: str
    make: Callable[[int], Executor]
    batch: int
    is_local: bool


def find_engine(name: str) -> Engine:
    """Find an engine by its name: the local one, or one that an installed package offers as an entry point.

    Raises:
        EngineError: no package offers it, or the package does not load.
    """
    if name == LOCAL:
        return Engine(LOCAL, _make_local_executor, LOCAL_BATCH, is_local=True)
    from importlib.metadata import entry_points

    offered = {point.name: point for point in entry_points(group=GROUP)}
    if name not in offered:
        names = ", ".join(sorted({LOCAL, *offered}))
        raise EngineError(f"there is no engine {name!r}; there are: {names}")
    return Engine(name, _load(offered[name]), REMOTE_BATCH, is_local=False)


def count_jobs() -> int:
    """How many jobs this process may run at a time: the processors it is allowed, not all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _make_local_executor(jobs: int) -> Executor:
    # Most runs end before a pool is needed, and loading what it takes is a good part of such a run.
    from instrumentor.engine.local_executor import make_local_executor

    return make_local_executor(jobs)


def _load(point: EntryPoint) -> Callable[[int], Executor]:
    try:
        make: Callable[[int], Executor] = point.load()
    except ImportError as error:
        extra = f"pip install 'instrumentor[{point.name}]'" if point.value.startswith("instrumentor.") else "install it"
        raise EngineError(f"the engine {point.name!r} needs what is not installed ({error}); {extra}") from None
    return make
