"""Ray as an engine: `instrument --engine ray`, with the extra `[ray]`."""

from __future__ import annotations

import logging
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import TYPE_CHECKING, Any, TypeVar

import ray
from ray.exceptions import RayError, RayTaskError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec

    P = ParamSpec("P")

T = TypeVar("T")

# If a worker dies, Ray restarts its task on another one, up to this many times.
_RETRIES = 3


class RayExecutor(Executor):
    """Runs calls on the Ray cluster that this process belongs to ($RAY_ADDRESS), or on a local one.

    Files must be readable under the same paths on every node, as on a shared file system.
    """

    def __init__(self, jobs: int) -> None:
        """Connect, or start Ray with `jobs` workers if there is no cluster."""
        self._owns_ray = not ray.is_initialized()
        if self._owns_ray:
            try:
                ray.init(address="auto", log_to_driver=False, logging_level=logging.ERROR)
            except ConnectionError:
                ray.init(
                    address="local",
                    num_cpus=jobs,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
        self._functions: dict[Any, Any] = {}
        self._references: set[Any] = set()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call on a worker.

        Returns:
            The future result; it raises `BrokenExecutor` if workers repeatedly died on the call.
        """
        if fn not in self._functions:
            self._functions[fn] = ray.remote(max_retries=_RETRIES)(fn)
        reference = self._functions[fn].remote(*args, **kwargs)
        self._references.add(reference)
        result: Future[T] = Future()
        result.set_running_or_notify_cancel()

        def pass_on(done: Future[T]) -> None:
            self._references.discard(reference)
            error = done.exception()
            if error is None:
                result.set_result(done.result())
            elif isinstance(error, RayError) and not isinstance(error, RayTaskError):
                result.set_exception(BrokenExecutor(str(error)))
            else:
                result.set_exception(error)

        reference.future().add_done_callback(pass_on)
        return result

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel pending calls if asked to, and shut Ray down if this executor started it."""
        if cancel_futures:
            for reference in list(self._references):
                ray.cancel(reference, force=True)
        elif wait and self._references:
            ray.wait(list(self._references), num_returns=len(self._references))
        if self._owns_ray:
            ray.shutdown()
