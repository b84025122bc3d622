"""Writes a trace: takes events on the training thread, and encodes and writes them on its own thread."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from proxy_wrapper.events import (
    Backward,
    Buffer,
    CallFunction,
    CallMethod,
    Configuration,
    GetAttr,
    Gradient,
    Happening,
    Input,
    Limit,
    NonFinite,
    Optimizer,
    OptimizerState,
    OptimizerStep,
    OptimizerStepEnd,
    Parameter,
    Problem,
    ReturnModule,
    RunEnd,
    Statistics,
    Update,
    have_same_values,
)
from proxy_wrapper.limits import Limits
from proxy_wrapper.process.background_thread import BackgroundThread
from proxy_wrapper.process.launch import is_multiprocessing_child
from proxy_wrapper.process.signal_handlers import comes_from_signal_handler
from proxy_wrapper.values.pending import NumbersLostError, Pending

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_wrapper.events import AnyEvent
    from proxy_wrapper.writing.sinks.sink import Sink

INTERVAL_S: Final = 0.25
"""How often the queue is written out, in seconds. A killed process loses at most the events of this period."""

QUEUE_LIMIT: Final = 1 << 16
"""The length of the queue from which the training thread waits for the disk, so that memory does not fill up."""

PATIENCE_S: Final = 5.0
"""How long the program waits for an unresponsive disk: with a full queue, before a fork, and at the end."""

FIRST_RETRY_S: Final = 1.0
"""The delay before a failed write is retried. It doubles with each further failure, up to a minute."""

_LAST_RETRY_S: Final = 60.0
_BATCH: Final = 512
_PENDING_FIELDS: Final[dict[str, Any]] = {
    "statistics": None,
    "count": 0,
    "cleared": False,
    "loss_value": None,
    "carried": False,
}
"""The fields that may be pending, each with its value if the numbers are lost."""
_MAY_BE_PENDING: Final = frozenset(
    (
        Parameter,
        Buffer,
        OptimizerState,
        Gradient,
        Update,
        NonFinite,
        GetAttr,
        Backward,
        OptimizerStep,
        Input,
        OptimizerStepEnd,
    )
)
"""The exact types of events with pending fields. `isinstance` would cost more here than encoding the event."""
_SEVERAL_STATISTICS: Final = {
    ReturnModule: ("statistics",),
    CallFunction: ("statistics", "changed_statistics"),
    CallMethod: ("statistics", "changed_statistics"),
}
"""The events with statistics of several tensors, and the fields with these."""


_KEPT_AT_LIMIT: Final = frozenset(
    (Configuration, NonFinite, Optimizer, OptimizerStep, OptimizerStepEnd, Problem, RunEnd, Update)
)
"""The happenings that are recorded even after the trace has reached its size limit."""


class TraceWriter:
    """An observer that passes events to a sink from its own thread, in order.

    The sink is created on the first write, so a process without events creates no file. One started by
    `multiprocessing` creates none for definitions alone.

    If the file system fails (for instance, the disk is full), `report` is called, and the write is retried from time to
    time. Happenings in the meantime are lost, but definitions are not. The trace remains readable if it goes on, and
    says how much is missing. Any other error ends the trace.
    """

    def __init__(
        self,
        open_sink: Callable[[], Sink],
        report: Callable[[str], None],
        may_begin: Callable[[], bool] = lambda: True,
        name: Callable[[AnyEvent], str] = lambda event: type(event).__name__,
        on_hidden_change: Callable[[int], object] = lambda _: None,
        limits: Limits | None = None,
        may_go_on: Callable[[bool], bool] = lambda _: True,
    ) -> None:
        """Start without a thread and without a file.

        Args:
            open_sink: creates the sink.
            report: called with a message when something was lost.
            may_begin: called at the first happening. False keeps this process from writing at all.
            name: describes the tensor whose numbers an event has. Called on the writer's thread.
            on_hidden_change: called on the writer's thread with the id of a tensor, when numbers from a device show
                that it changed without its version count.
            limits: the limit on the size of the trace.
            may_go_on: called before each write, and with True at the end. False if it has turned out that this process
                is not to write a trace. What it has written is then removed.
        """
        self._limits = limits or Limits()
        self._may_go_on = may_go_on
        self._is_limited = False
        self._may_begin = may_begin
        self._name = name
        self._on_hidden_change = on_hidden_change
        self._has_lost_numbers = False
        self._open_sink = open_sink
        self._report = report
        self._queue: deque[AnyEvent] = deque()
        self._sink: Sink | None = None
        self._has_begun = False
        self._has_ended = False
        self._thread: BackgroundThread | None = None
        self._wake = threading.Event()
        self._writing = threading.Lock()  # Held while the sink is in use.
        self._taking = threading.Lock()  # Held while events are taken out of the queue.
        self._has_room = threading.Condition()
        self._losses = _Losses()
        self._retry_at_s = 0.0
        self._retry_after_s = FIRST_RETRY_S
        self._seen_nonfinite: set[tuple[str, int, int]] = set()
        self._arrived: dict[int, Statistics | None] = {}

    def observe(self, event: AnyEvent) -> None:
        """Queue `event`."""
        if self._has_ended:
            return
        self._queue.append(event)
        if self._thread is None:
            if isinstance(event, Happening) and not isinstance(event, (Configuration, Problem, RunEnd)):
                self._start()
        elif len(self._queue) >= QUEUE_LIMIT:
            self._make_room()

    def flush(self) -> None:
        """Return once everything queued so far has been passed to the operating system, or could not be."""
        self._finish_thread()
        # A spawned data loading worker imports the script again, and may define models that it never uses.
        if self._queue and (self._has_begun or not is_multiprocessing_child()):
            self._drain(is_last_try=True)

    def close(self) -> None:
        """Write what is left, and stop for good."""
        if not self._may_go_on(True):
            self._finish_thread()
            with self._when_not_writing():
                self._withdraw()
        self.flush()
        self._has_ended = True
        with self._when_not_writing() as is_free:
            if is_free and self._sink is not None:
                self._sink.close()
                self._sink = None
        if self._losses.count:
            self._report(f"{self._losses}, and were never written.")
        elif not is_free:
            self._report(f"the disk does not respond; the last {len(self._queue)} events may be missing.")

    def abandon(self) -> None:
        """Discard everything without writing. For a forked child, where queue and file belong to the parent."""
        if self._sink is not None:
            with contextlib.suppress(OSError):  # Nothing is buffered: this closes the child's copy of the file.
                self._sink.close()
        self.__init__(  # type: ignore[misc]
            self._open_sink,
            self._report,
            self._may_begin,
            self._name,
            self._on_hidden_change,
            self._limits,
            self._may_go_on,
        )

    def pause(self) -> None:
        """Write everything, and end the thread until the next event. For a fork, which copies no threads."""
        self._finish_thread()

    def hold(self) -> bool:
        """Neither write nor wait for a device until `let_go`. Events are still accepted.

        Returns:
            False if a write in progress does not end in time. Then nothing is held.
        """
        return self._writing.acquire(timeout=PATIENCE_S)

    def let_go(self) -> None:
        """Resume writing."""
        self._writing.release()

    # The thread, and waiting for it.

    def _start(self) -> None:
        if not self._has_begun and not self._may_begin():
            self._has_ended = True
            self._queue.clear()
            return
        self._has_begun = True
        self._wake.clear()
        thread = self._thread = BackgroundThread(lambda: self._run(thread))
        try:
            thread.start()
        except RuntimeError:  # Too many threads, or the interpreter is shutting down: `flush` and `close` write.
            self._thread = None

    def _run(self, thread: BackgroundThread) -> None:
        while self._thread is thread:
            self._wake.wait(INTERVAL_S)
            self._wake.clear()
            self._drain(is_last_try=self._thread is not thread)

    def _finish_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None and not thread.is_current():
            self._wake.set()
            thread.join(PATIENCE_S)  # Returns at once if it is not started yet; it will then find nothing to do.

    def _make_room(self) -> None:
        """Wait until the queue is shorter. If the disk is too slow, drop events."""
        if self._thread is not None and self._thread.is_current():
            return
        self._wake.set()
        with self._has_room:
            if self._has_room.wait_for(lambda: len(self._queue) < QUEUE_LIMIT, PATIENCE_S):
                return
        self._give_up_happenings("the disk did not respond")

    @contextlib.contextmanager
    def _when_not_writing(self) -> Any:
        """Acquire the sink, if it becomes free in the time that the program can wait."""
        is_free = self._writing.acquire(timeout=PATIENCE_S)
        try:
            yield is_free
        finally:
            if is_free:
                self._writing.release()

    # Writing.

    def _drain(self, *, is_last_try: bool) -> None:
        """Write out the queue, unless the last write failed and a retry is not due yet."""
        with self._when_not_writing() as is_free:
            if not is_free:
                return
            if self._retry_at_s > time.monotonic() and not is_last_try:
                self._give_up_happenings()
                return
            while (batch := self._take()) or self._losses.count:
                try:
                    self._write(batch)
                except Exception as error:  # Training goes on, whatever it is.
                    if comes_from_signal_handler(error):
                        raise
                    if isinstance(error, OSError):
                        self._suspend(batch, error)
                    else:
                        self._fail(batch, error)
                    return
                with self._has_room:
                    self._has_room.notify_all()

    def _take(self) -> list[AnyEvent]:
        queue = self._queue
        with self._taking:
            return [queue.popleft() for _ in range(min(len(queue), _BATCH))]

    def _write(self, batch: list[AnyEvent]) -> None:
        if not self._may_go_on(False):
            self._withdraw()
            return
        if self._sink is None:
            self._sink = self._open_sink()
        else:
            self._sink.refresh()
        with self._taking:
            losses, self._losses = self._losses, _Losses()
        events = self._within_limit(self._resolved(batch))
        try:
            self._sink.write([losses.as_problem(), *events] if losses.count else events)
        except BaseException:
            with self._taking:
                losses.extend(self._losses)
                self._losses = losses
            self._seen_nonfinite -= {_place_of(event) for event in events if isinstance(event, NonFinite)}
            raise
        self._retry_at_s, self._retry_after_s = 0.0, FIRST_RETRY_S

    def _withdraw(self) -> None:
        """Remove what has been written, and stop writing."""
        self._has_ended = True
        self._losses = _Losses()
        with self._taking:
            self._queue.clear()
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.discard()

    def _within_limit(self, events: list[AnyEvent]) -> list[AnyEvent]:
        """The events that are still recorded, given the size limit of the trace."""
        limit, sink = self._limits.max_bytes, self._sink
        if limit is None or sink is None or not (self._is_limited or sink.size() >= limit):
            return events
        kept = [event for event in events if not isinstance(event, Happening) or type(event) in _KEPT_AT_LIMIT]
        if self._is_limited:
            return kept
        self._is_limited = True
        now = next((event for event in events if isinstance(event, Happening)), Problem(0))
        return [Limit(now.time_us, now.step, stage=now.stage, max_size=limit), *kept]

    def _suspend(self, batch: list[AnyEvent], error: OSError) -> None:
        """Suspend writing after an error of the file system."""
        self._retry_at_s = time.monotonic() + self._retry_after_s
        self._retry_after_s = min(2 * self._retry_after_s, _LAST_RETRY_S)
        with self._taking:
            self._queue.extendleft(reversed(batch))
        reason = f"{type(error).__name__}: {error}"
        self._give_up_happenings(reason)
        self._report(
            f"the trace cannot be written ({reason}); until it can be again, what happens is not recorded. "
            "Training goes on."
        )

    def _give_up_happenings(self, reason: str = "") -> None:
        """Drop happenings from the queue, but keep definitions, settings, faults, and the end of the trace."""
        queue = self._queue
        kept = []
        with self._taking:
            losses = self._losses
            losses.reason = losses.reason or reason
            for _ in range(len(queue)):
                event = queue.popleft()
                if isinstance(event, Happening) and not isinstance(event, (Configuration, NonFinite, Problem, RunEnd)):
                    losses.add(event)
                else:
                    kept.append(event)
            queue.extendleft(reversed(kept))
        with self._has_room:
            self._has_room.notify_all()

    def _fail(self, batch: list[AnyEvent], error: Exception) -> None:
        self._has_ended = True
        lost = self._losses.count + len(batch) + len(self._queue)
        self._losses = _Losses()
        self._queue.clear()
        sink, self._sink = self._sink, None
        if sink is not None:
            with contextlib.suppress(Exception):  # After a failed write, closing may fail too.
                sink.close()
        events = "1 event" if lost == 1 else f"{lost:,} events"
        self._report(
            f"the trace can no longer be written ({type(error).__name__}: {error}); {events} and all that follow "
            "are lost. Training goes on untraced."
        )

    def _resolved(self, events: list[AnyEvent]) -> list[AnyEvent]:
        """The events with their numbers, without suspected non-finite values and changes that turn out to be none."""
        resolved: list[AnyEvent] = []
        for event in events:
            if type(event) in _SEVERAL_STATISTICS:
                resolved.append(self._with_statistics(event))
                continue
            if type(event) not in _MAY_BE_PENDING or (
                type(getattr(event, "statistics", None)) is Statistics
                and type(getattr(event, "cleared", False)) is bool
            ):
                resolved.append(event)
                continue
            was_pending = is_lost = False
            for field, nothing in _PENDING_FIELDS.items():
                value: Any = getattr(event, field, None)
                if isinstance(value, Pending):
                    was_pending = True
                    try:
                        numbers: Any = value.resolve()
                    except NumbersLostError as error:
                        is_lost = True
                        self._report_lost_numbers(event, error)
                        numbers = nothing
                    event = msgspec.structs.replace(event, **{field: numbers})  # noqa: PLW2901
            if was_pending and isinstance(event, (Update, Parameter, Buffer, OptimizerState)):
                settled = self._settled(event, is_lost=is_lost)
                if settled is None:
                    continue
                event = settled  # noqa: PLW2901
            if isinstance(event, NonFinite):
                place = _place_of(event)
                if not event.count or place in self._seen_nonfinite:
                    continue
                self._seen_nonfinite.add(place)
            resolved.append(event)
        return resolved

    def _with_statistics(self, event: AnyEvent) -> AnyEvent:
        """The event with the statistics of its tensors, None for those that are lost."""
        for field in _SEVERAL_STATISTICS[type(event)]:
            several: Sequence[Any] | None = getattr(event, field)
            if several is None or not any(isinstance(each, Pending) for each in several):
                continue
            numbers: list[Any] = []
            for each in several:
                try:
                    numbers.append(each.resolve() if isinstance(each, Pending) else each)
                except NumbersLostError as error:  # noqa: PERF203
                    self._report_lost_numbers(event, error)
                    numbers.append(None)
            event = msgspec.structs.replace(event, **{field: tuple(numbers)})
        return event

    def _report_lost_numbers(self, event: AnyEvent, error: NumbersLostError) -> None:
        """Report lost numbers, but only the first time, because a device may fail in the same way at each step."""
        if not self._has_lost_numbers:
            self._has_lost_numbers = True
            self._report(
                f"the numbers of {self._name(event)} could not be read off its device ({error}); these, and others "
                "that it fails to give from here on, are missing in the trace. Training goes on."
            )

    def _settled(self, event: Update | Parameter | Buffer | OptimizerState, *, is_lost: bool) -> AnyEvent | None:
        """The event, now that its numbers have arrived or are lost; None if the tensor has not changed."""
        if not isinstance(event, Update):
            self._arrived[event.id] = event.statistics
            return event
        if is_lost:
            return None if event.cause == "data" else event
        before, self._arrived[event.tensor] = self._arrived.get(event.tensor), event.statistics
        if not have_same_values(before, event.statistics) or event.type:
            if event.cause == "data" and before is not None:
                self._on_hidden_change(event.tensor)
            return event
        return msgspec.structs.replace(event, cause="unchanged") if event.cause == "step" else None


def _place_of(event: NonFinite) -> tuple[str, int, int]:
    """The key of a place where only the first non-finite value is recorded."""
    return event.where, event.module, event.tensor


class _Losses:
    """Counts the events that could not be written."""

    def __init__(self) -> None:
        self.count = 0
        self.reason = ""
        self._first_step = 0
        self._last: Happening | None = None

    def add(self, event: Happening) -> None:
        """Count `event`."""
        if self._last is None:
            self._first_step = event.step
        self.count += 1
        self._last = event

    def extend(self, later: _Losses) -> None:
        """Add the counts of `later`."""
        if self._last is None:
            self._first_step = later._first_step
        self.count += later.count
        self.reason = self.reason or later.reason
        self._last = later._last or self._last

    def __str__(self) -> str:
        last_step = self._last.step if self._last is not None else 0
        steps = f"step {last_step}" if last_step == self._first_step else f"steps {self._first_step} to {last_step}"
        return f"{self.count} events of {steps} were lost ({self.reason})"

    def as_problem(self) -> Problem:
        """A record of the loss, for the trace that goes on."""
        last = self._last or Problem(0)
        return Problem(last.time_us, last.step, message=f"{self}; the trace goes on after them.")
