"""Keeps tracebacks of errors in modules the same as without tracing.

The inner function through which torch calls the `forward` of a module with hooks (`unhooked_calls.py`) is removed
from the traceback if it is only there because of our hooks.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from proxy_wrapper.intercept.calls.unhooked_calls import CALL, WITHOUT_HOOKS, has_own_hooks

if TYPE_CHECKING:
    from torch import nn


def show_as_unhooked(module: nn.Module, error: BaseException) -> None:
    """Make the traceback of `error`, raised by the `forward` of `module`, that of a call without hooks.

    Call it from a hook of torch, and only if all global hooks are ours. Python 3.10 keeps its own traceback while an
    error is handled, which stays as it is.
    """
    trace = error.__traceback__
    if trace is None or trace.tb_next is None or WITHOUT_HOOKS is None:
        return
    is_hooked = trace.tb_frame.f_code is CALL and trace.tb_next.tb_frame.f_code is WITHOUT_HOOKS.inner
    if is_hooked and not has_own_hooks(module):
        forward = trace.tb_next.tb_next
        error.__traceback__ = TracebackType(forward, trace.tb_frame, WITHOUT_HOOKS.instruction, WITHOUT_HOOKS.line)
