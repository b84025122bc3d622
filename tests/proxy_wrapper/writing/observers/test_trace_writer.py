"""The writer loses nothing while the disk works, tells what it lost when not, and never waits for long."""

from __future__ import annotations

import errno
import threading
import time
from _thread import _count as count_threads
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from proxy_wrapper.events import AnyEvent, Backward, Module, NonFinite, Problem, RunEnd
from proxy_wrapper.process.background_thread import BackgroundThread
from proxy_wrapper.writing.observers import trace_writer
from proxy_wrapper.writing.observers.trace_writer import TraceWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class ListSink:
    """Keeps events; raises `error` while there is one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.events: list[AnyEvent] = []
        self.error = error
        self.is_closed = False

    def write(self, events: Sequence[AnyEvent]) -> None:
        if self.error is not None:
            raise self.error
        self.events.extend(events)

    def refresh(self) -> None: ...

    def size(self) -> int:
        return 0

    def discard(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True


class StuckSink(ListSink):
    """A disk that does not respond until `goes_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def write(self, events: Sequence[AnyEvent]) -> None:
        self.goes_on.wait()
        super().write(events)


def disk_full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def numbered(count: int, first: int = 0) -> list[Backward]:
    return [Backward(number, step=number) for number in range(first, first + count)]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals that a test can wait for."""
    monkeypatch.setattr(trace_writer, "INTERVAL_S", 0.01)
    monkeypatch.setattr(trace_writer, "FIRST_RETRY_S", 0.05)
    monkeypatch.setattr(trace_writer, "PATIENCE_S", 0.2)


def test_events_arrive_in_order_and_whole() -> None:
    sink, said = ListSink(), list[str]()
    writer = TraceWriter(lambda: sink, said.append)
    for event in numbered(10_000):
        writer.observe(event)
    writer.close()
    assert sink.events == numbered(10_000)
    assert sink.is_closed
    assert said == []


def test_a_flush_while_another_thread_starts_the_writer_has_everything_written(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = ListSink()
    writer = TraceWriter(lambda: sink, lambda message: None)
    start = BackgroundThread.start
    flushed: list[BaseException | None] = []

    def flush_and_start(thread: BackgroundThread) -> None:
        monkeypatch.undo()
        with ThreadPoolExecutor() as pool:
            flushed.append(pool.submit(writer.flush).exception())
        start(thread)

    monkeypatch.setattr(BackgroundThread, "start", flush_and_start)
    writer.observe(Backward(1))
    assert flushed == [None]
    assert sink.events == [Backward(1)]
    writer.observe(Backward(2))
    writer.close()
    assert sink.events == [Backward(1), Backward(2)]


def test_what_is_written_reaches_the_sink_without_being_asked_for(quick: None) -> None:
    sink = ListSink()
    writer = TraceWriter(lambda: sink, lambda message: None)
    writer.observe(Backward(1))
    wait_until(lambda: sink.events == [Backward(1)])
    writer.close()


def test_a_full_queue_waits_for_the_disk_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_writer, "QUEUE_LIMIT", 10)
    monkeypatch.setattr(trace_writer, "INTERVAL_S", 60.0)
    sink = ListSink()
    writer = TraceWriter(lambda: sink, lambda message: None)
    for event in numbered(1000):
        writer.observe(event)
        assert len(writer._queue) <= 10
    writer.close()
    assert sink.events == numbered(1000)


def test_a_disk_that_does_not_respond_costs_events_but_not_the_training(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_writer, "QUEUE_LIMIT", 10)
    monkeypatch.setattr(trace_writer, "_BATCH", 4)
    sink = StuckSink()
    writer = TraceWriter(lambda: sink, lambda message: None)
    definition = Module(1, "net", "Net", 1)
    writer.observe(definition)
    writer.observe(numbered(1)[0])
    wait_until(lambda: not writer._queue)  # The first batch is with the disk now.
    for event in numbered(50, 1):
        writer.observe(event)
        assert len(writer._queue) <= 10
    sink.goes_on.set()
    writer.close()
    (loss,) = (event for event in sink.events if isinstance(event, Problem))
    written = [event for event in sink.events if isinstance(event, Backward)]
    assert loss.message.startswith(f"{51 - len(written)} events of steps 1 to ")
    assert loss.message.endswith("were lost (the disk did not respond); the trace goes on after them.")
    assert written == sorted(written, key=lambda event: event.step)
    assert sink.events[0] == definition


def test_a_program_with_a_stuck_disk_ends(quick: None) -> None:
    sink, said = StuckSink(), list[str]()
    writer = TraceWriter(lambda: sink, said.append)
    for event in numbered(3):
        writer.observe(event)
    writer.close()
    sink.goes_on.set()
    assert len(said) == 1
    assert said[0].startswith("the disk does not respond")


def test_a_disk_that_can_be_written_again_gets_the_rest_and_what_is_missing(quick: None) -> None:
    said: list[str] = []
    sink = ListSink()
    writer = TraceWriter(lambda: sink, said.append)
    for event in numbered(3):
        writer.observe(event)
    writer.flush()
    sink.error = disk_full()
    defined, wrong = Module(1, "net", "Net", 1), NonFinite(6, 6, where="gradient", tensor=1, count=2)
    meanwhile: list[AnyEvent] = [*numbered(2, 3), defined, wrong, *numbered(1, 7)]
    for each in meanwhile:
        writer.observe(each)
    wait_until(lambda: not any(isinstance(event, Backward) for event in writer._queue))
    sink.error = None
    for event in numbered(3, 8):
        writer.observe(event)
    writer.observe(RunEnd(99))
    writer.close()
    assert len(said) == 1
    assert "OSError: [Errno 28] No space left on device" in said[0]
    assert "Training goes on" in said[0]
    (loss,) = (event for event in sink.events if isinstance(event, Problem))
    assert loss.message.startswith("3 events of steps 3 to 7 were lost (OSError: [Errno 28]")
    rest = [event for event in sink.events if event is not loss]
    assert rest == [*numbered(3), defined, wrong, *numbered(3, 8), RunEnd(99)]


def test_a_disk_that_stays_full_is_told_once_and_the_count_at_the_end(quick: None) -> None:
    said: list[str] = []
    writer = TraceWriter(lambda: ListSink(disk_full()), said.append)
    for event in numbered(3):
        writer.observe(event)
        writer.flush()
    writer.observe(RunEnd(4, 3))
    writer.close()
    assert len(set(said)) == 2
    assert said[-1].startswith("3 events of steps 0 to 2 were lost")
    assert said[-1].endswith("and were never written.")


def test_memory_does_not_grow_while_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_writer, "QUEUE_LIMIT", 100)
    monkeypatch.setattr(trace_writer, "INTERVAL_S", 0.01)
    writer = TraceWriter(lambda: ListSink(disk_full()), lambda message: None)
    for event in numbered(5000):
        writer.observe(event)
        assert len(writer._queue) <= 101
    writer.close()


def test_a_sink_that_cannot_be_opened_at_first_is_opened_later(quick: None) -> None:
    sink, tries = ListSink(), list[int]()

    def open_sink() -> ListSink:
        tries.append(1)
        if len(tries) == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return sink

    writer = TraceWriter(open_sink, lambda message: None)
    definition = Module(1, "net", "Net", 1)
    writer.observe(definition)
    writer.observe(Backward(1))
    wait_until(lambda: definition in sink.events)
    writer.close()
    assert isinstance(sink.events[0], Problem)
    assert sink.events[1:] == [definition]


def test_an_error_that_is_not_the_disk_s_ends_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_writer, "INTERVAL_S", 60.0)  # So that all three are there when `flush` has them written.
    said: list[str] = []
    sink = ListSink(ZeroDivisionError("mine"))
    writer = TraceWriter(lambda: sink, said.append)
    for event in numbered(3):
        writer.observe(event)
    writer.flush()
    writer.observe(Backward(4))
    writer.close()
    assert said == [
        (
            "the trace can no longer be written (ZeroDivisionError: mine); 3 events and all that follow are lost. "
            "Training goes on untraced."
        )
    ]
    assert sink.is_closed


def test_definitions_alone_start_no_thread_and_are_written_at_the_end() -> None:
    sink = ListSink()
    writer = TraceWriter(lambda: sink, lambda message: None)
    before = count_threads()
    writer.observe(Module(1, "net", "Net", 1))
    writer.observe(RunEnd(2))
    assert count_threads() == before
    writer.close()
    assert len(sink.events) == 2


def test_nothing_is_taken_after_the_end() -> None:
    sink = ListSink()
    writer = TraceWriter(lambda: sink, lambda message: None)
    writer.close()
    before = count_threads()
    writer.observe(Backward(1))
    assert count_threads() == before
    assert not writer._queue


def test_a_pause_leaves_no_thread_and_the_next_event_starts_one(quick: None) -> None:
    sink = ListSink()
    writer = TraceWriter(lambda: sink, lambda message: None)
    before = count_threads()
    writer.observe(Backward(1))
    writer.pause()
    assert count_threads() == before
    assert sink.events == [Backward(1)]
    writer.observe(Backward(2))
    wait_until(lambda: len(sink.events) == 2)
    writer.close()
