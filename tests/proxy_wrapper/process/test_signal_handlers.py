"""What a signal handler of the program raises reaches the program, whatever runs when the signal comes."""

from __future__ import annotations

import copy
import functools
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Module, OptimizerStepEnd
from proxy_wrapper.intercept.calls import module_calls
from proxy_wrapper.process.signal_handlers import comes_from_signal_handler
from proxy_wrapper.writing.observers.memory import MemoryObserver
from proxy_wrapper.writing.observers.trace_writer import TraceWriter
from tests.conformance.bits import difference, frozen
from tests.proxy_wrapper.programs import Plain, images, train

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy_wrapper.events import AnyEvent

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGUSR1")


class PreemptedError(Exception):
    """What the program's handler raises."""


class Handler:
    def __call__(self, *_: Any) -> NoReturn:
        self.give_up()

    def give_up(self, *_: Any) -> NoReturn:
        raise PreemptedError


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, Handler())
    yield
    signal.signal(signal.SIGUSR1, before)


def interrupt(*_: object) -> Any:
    signal.raise_signal(signal.SIGUSR1)


@pytest.mark.parametrize(
    "handler",
    [Handler(), Handler().give_up, functools.partial(Handler.give_up, Handler()), lambda *_: Handler().give_up()],
    ids=["object", "method", "partial", "function"],
)
def test_an_error_of_a_handler_is_told_from_others(handler: Callable[..., Any]) -> None:
    signal.signal(signal.SIGUSR1, handler)
    with pytest.raises(PreemptedError) as raised:
        interrupt()
    assert comes_from_signal_handler(raised.value)
    with pytest.raises(ZeroDivisionError) as other:
        1 / 0  # noqa: B018
    assert not comes_from_signal_handler(other.value)


def test_a_signal_that_comes_while_a_call_is_recorded(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], logdir: str, seen: MemoryObserver
) -> None:
    plain = Plain()
    model = Proxy.Proxy(copy.deepcopy(plain), recurse=True, logdir=logdir)
    with monkeypatch.context() as patch:
        patch.setattr(module_calls, "find_tensors", interrupt)
        with pytest.raises(PreemptedError):
            model(nn.Parameter(images()))
    expected = frozen(train(plain))
    assert difference(expected, frozen(train(model))) is None
    assert sum(isinstance(event, OptimizerStepEnd) for event in seen.events) == 3
    assert not capfd.readouterr().err


def test_a_signal_that_comes_while_an_event_is_taken(capfd: pytest.CaptureFixture[str], logdir: str) -> None:
    class Interrupted(MemoryObserver):
        is_armed = False

        def observe(self, event: AnyEvent) -> None:
            if self.is_armed:
                self.is_armed = False
                interrupt()
            super().observe(event)

    observer = Interrupted()
    Proxy.observe(observer)
    model = Proxy.Proxy(nn.Linear(1, 1), logdir=logdir)
    observer.is_armed = True
    with pytest.raises(PreemptedError):
        model(torch.ones(1, 1))
    before = len(observer.events)
    model(torch.ones(1, 1))
    assert len(observer.events) > before
    assert not capfd.readouterr().err


def test_a_signal_that_comes_while_the_program_flushes() -> None:
    class InterruptedSink:
        def write(self, _: Any) -> None:
            interrupt()

        def refresh(self) -> None: ...

        def size(self) -> int:
            return 0

        def discard(self) -> None: ...

        def close(self) -> None: ...

    reports: list[str] = []
    writer = TraceWriter(InterruptedSink, reports.append)
    writer.observe(Module(1, "net", "Net", root=1))
    with pytest.raises(PreemptedError):
        writer.flush()
    assert not reports
