"""A thread that runs beside the program and that the program does not meet."""

from __future__ import annotations

import signal
import sys
import threading
import time
from _thread import _count as count_threads

import pytest

from proxy_wrapper.process.background_thread import BackgroundThread


def test_it_runs_beside_the_program_until_its_function_returns() -> None:
    begins, ends = threading.Event(), threading.Event()
    seen: list[bool] = []

    def work() -> None:
        begins.set()
        ends.wait()
        seen.append(thread.is_current())

    before = count_threads()
    thread = BackgroundThread(work)
    thread.start()
    begins.wait()
    began = time.monotonic()
    thread.join(0.01)
    assert time.monotonic() - began < 5
    assert seen == []
    ends.set()
    thread.join(5)
    assert seen == [True]
    assert not thread.is_current()
    assert count_threads() == before


def test_one_that_was_not_started_is_not_waited_for() -> None:
    BackgroundThread(lambda: None).join(60)


def test_threading_does_not_know_it() -> None:
    ends = threading.Event()
    calls: list[object] = []

    def work() -> None:
        ends.wait()

    names = threading.enumerate()
    threading.setprofile(lambda *call: calls.append(call))
    threading.settrace(lambda *call: calls.append(call))
    try:
        thread = BackgroundThread(work)
        thread.start()
        assert threading.enumerate() == names
    finally:
        threading.setprofile(None)
        threading.settrace(None)
        ends.set()
    thread.join(5)
    assert calls == []


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="POSIX's")
def test_it_takes_no_signal_and_the_program_takes_what_it_took() -> None:
    masks: list[set[int]] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        thread = BackgroundThread(lambda: masks.append(set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))))
        thread.start()
        thread.join(5)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before | {signal.SIGUSR1}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert masks[0] >= {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGALRM}
    assert signal.SIGSEGV not in masks[0]


def test_the_mask_is_put_back_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    name = "start_joinable_thread" if sys.version_info >= (3, 13) else "start_new_thread"
    monkeypatch.setattr(f"_thread.{name}", refuse)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with pytest.raises(RuntimeError, match="new thread"):
        BackgroundThread(lambda: None).start()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
