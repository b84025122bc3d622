"""Distinguishes our own errors from those that a signal handler of the program raises while our code runs.

A handler that ends a wait (`signal.alarm` with `raise TimeoutError`) or a job (`SIGUSR1` with `raise Preempted`) may
run between any two instructions of the main thread, including ours. Its exception is meant for the program.
"""

from __future__ import annotations

import functools
import signal
from types import CodeType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def comes_from_signal_handler(error: BaseException) -> bool:
    """Whether a signal handler of the program, or a function that it called, raised `error`."""
    handlers = {code for number in signal.valid_signals() for code in _codes_of(signal.getsignal(number))}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _codes_of(handler: Any) -> Iterator[CodeType]:
    """The code that runs first when `handler` is called; none if that is not written in Python."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    for function in (handler, type(handler).__call__) if callable(handler) else ():
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType):
            yield code
