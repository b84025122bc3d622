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
# A unit of work takes milliseconds, so a scheduler's cost per task must be shared by many units.
LOCAL_BATCH = 32
REMOTE_BATCH = 64


@dataclass(frozen=True)
class Engine:
    """A way to run units of work.

    Attributes:
        name: its name for `--engine`.
        make: starts it with a number of parallel jobs.
        batch: how many files make one task.
        is_local: whether it uses processes of this machine, so that small workloads run faster in this process.
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
    """How many jobs to run at a time: the processors that this process may use, not all of the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _make_local_executor(jobs: int) -> Executor:
    # Most runs end before a pool is needed, and importing it would be a good part of their time.
    from instrumentor.engine.local_executor import make_local_executor

    return make_local_executor(jobs)


def _load(point: EntryPoint) -> Callable[[int], Executor]:
    try:
        make: Callable[[int], Executor] = point.load()
    except ImportError as error:
        extra = f"pip install 'instrumentor[{point.name}]'" if point.value.startswith("instrumentor.") else "install it"
        raise EngineError(f"the engine {point.name!r} needs what is not installed ({error}); {extra}") from None
    return make
