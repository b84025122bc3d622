"""Writes a trace: takes events on the training thread, encodes and writes them on one of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from proxy_wrapper.events import Happening, NonFinite
from proxy_wrapper.statistics import PendingCount, PendingStatistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.events import AnyEvent
    from proxy_wrapper.sinks.sink import Sink

INTERVAL_S: Final = 0.25
"""How often the queue is written out: what a killed process can lose at most, in seconds."""

QUEUE_LIMIT: Final = 1 << 16
"""Events in the queue from which on the training thread writes too, rather than lose one or fill the memory."""

_BATCH: Final = 512
_PENDING_FIELDS: Final = ("statistics", "count")


class TraceWriter:
    """An observer that hands events to a sink from a thread of its own, in order.

    The sink is made on the first write, so a process that sees nothing makes no file; one that `multiprocessing`
    started makes none for definitions alone. If the sink fails (a full
    disk, say), `report` is told once what was lost, and nothing is taken any more.
    """

    def __init__(self, open_sink: Callable[[], Sink], report: Callable[[str], None]) -> None:
        self._open_sink = open_sink
        self._report = report
        self._queue: deque[AnyEvent] = deque()
        self._sink: Sink | None = None
        self._failed = False
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen_nonfinite: set[tuple[str, int, int]] = set()
        self._has_begun = False

    def observe(self, event: AnyEvent) -> None:
        """Queue `event`."""
        if self._failed:
            return
        self._queue.append(event)
        if self._thread is None:
            if isinstance(event, Happening):
                self._start()
        elif len(self._queue) >= QUEUE_LIMIT:
            self._drain()

    def flush(self) -> None:
        """Return once everything queued so far has been handed to the operating system."""
        # A spawned worker that loads data imports the script anew, and with it may define models that it never uses.
        if self._has_begun or multiprocessing.parent_process() is None:
            self._drain()

    def close(self) -> None:
        """Write what is left, and end the thread."""
        thread, self._thread = self._thread, None
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self.flush()
        if self._sink is not None:
            self._sink.close()
            self._sink = None

    def abandon(self) -> None:
        """Forget everything without writing: in a forked child, where queue, thread and file are the parent's."""
        if self._sink is not None:
            with contextlib.suppress(OSError):  # Nothing is buffered: this closes the child's copy of the file.
                self._sink.close()
        self.__init__(self._open_sink, self._report)  # type: ignore[misc]

    def hold(self) -> None:
        """Let no write be under way until `release`: around a fork."""
        self._writing.acquire()

    def release(self) -> None:
        """End what `hold` began."""
        self._writing.release()

    def _start(self) -> None:
        self._has_begun = True
        self._thread = threading.Thread(target=self._run, name="proxy-trace-writer", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # The interpreter is shutting down: `close` writes what is queued.
            self._thread = None

    def _run(self) -> None:
        me = threading.current_thread()
        while self._thread is me:
            self._wake.wait(INTERVAL_S)
            self._drain()

    def _drain(self) -> None:
        queue = self._queue
        with self._writing:
            while queue and not self._failed:
                batch = list(islice(queue, _BATCH))
                try:
                    if self._sink is None:
                        self._sink = self._open_sink()
                    self._sink.write(self._resolved(batch))
                except Exception as error:  # noqa: BLE001  Whatever a file system can raise; training goes on.
                    self._fail(error)
                    return
                # Only now: were the process forked or killed before, the parent's queue still holds them.
                for _ in batch:
                    queue.popleft()

    def _fail(self, error: Exception) -> None:
        self._failed = True
        lost = len(self._queue)
        self._queue.clear()
        sink, self._sink = self._sink, None
        if sink is not None:
            with contextlib.suppress(Exception):  # What could not be written cannot be flushed either.
                sink.close()
        self._report(
            f"the trace can no longer be written ({type(error).__name__}: {error}); {lost} events and all that follow "
            f"are lost. Training goes on untraced."
        )

    def _resolved(self, events: list[AnyEvent]) -> list[AnyEvent]:
        """The events with their numbers; what was a non-finite value only perhaps, and is none, left out."""
        resolved = []
        for event in events:
            for field in _PENDING_FIELDS:
                value: Any = getattr(event, field, None)
                if isinstance(value, (PendingStatistics, PendingCount)):
                    event = msgspec.structs.replace(event, **{field: value.resolve()})  # noqa: PLW2901
            if isinstance(event, NonFinite):
                key = (event.where, event.module, event.tensor)
                if not event.count or key in self._seen_nonfinite:
                    continue
                self._seen_nonfinite.add(key)
            resolved.append(event)
        return resolved
