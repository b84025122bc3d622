"""The queue of the late device: work is done, in order, when somebody waits for it, and not before."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, deque
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class EarlyReadError(RuntimeError):
    """Values were asked for that have not been computed, by somebody who has not waited for them."""


class WorkQueue:
    """Work that has been asked for, and who has waited for it."""

    def __init__(self) -> None:
        self._work: deque[Callable[[], object]] = deque()
        self._lock = threading.RLock()
        self._asked = 0
        self._done = 0
        self.waits: Counter[int] = Counter()
        self.failure: Exception | None = None

    def add(self, work: Callable[[], object]) -> int:
        """Have `work` done after what has been asked for before; gives its number, from 1.

        Raises:
            Exception: that the device has failed with.
        """
        with self._lock:
            if self.failure is not None:
                raise self.failure
            self._work.append(work)
            self._asked += 1
            return self._asked

    @property
    def asked(self) -> int:
        """The number of the last work that was asked for."""
        return self._asked

    def is_done(self, number: int) -> bool:
        """Whether work up to `number` has been done."""
        return self._done >= number

    def wait(self, number: int | None = None) -> None:
        """Do all work up to `number`, or all that there is, and count that the calling thread has waited.

        Raises:
            Exception: that the device has failed with.
        """
        with self._lock:
            self.waits[threading.get_ident()] += 1
            last = self._asked if number is None else number
            with _as_device():
                while self._done < last:
                    if self.failure is not None:
                        raise self.failure
                    work = self._work.popleft()
                    self._done += 1
                    work()
            if self.failure is not None:
                raise self.failure

    def fail(self, error: Exception) -> None:
        """Lose the device: what is queued is never done."""
        with self._lock:
            self.failure = error

    def recover(self) -> None:
        """Begin anew, with nothing to do and nothing counted."""
        with self._lock:
            self.failure = None
            self._work.clear()
            self._done = self._asked
            self.waits.clear()


@contextlib.contextmanager
def _as_device() -> Iterator[None]:
    """Compute as a device does: whatever the thread that happens to wait has switched on."""
    with (
        torch._C.DisableTorchFunction(),
        torch._C._DisableAutocast(),
        torch._C._AutoDispatchBelowAutograd(),
        torch.no_grad(),
    ):
        yield
