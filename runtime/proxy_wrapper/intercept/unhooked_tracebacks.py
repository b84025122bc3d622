"""Keeps tracebacks of errors in modules as they are without tracing.

The function through which torch calls the `forward` of a module with hooks (`unhooked_calls.py`) is left out of the
traceback where only ours are the reason for it.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from proxy_wrapper.intercept.unhooked_calls import CALL, WITHOUT_HOOKS, has_own_hooks

if TYPE_CHECKING:
    from torch import nn


def show_as_unhooked(module: nn.Module, error: BaseException) -> None:
    """Let the traceback of `error`, which has just left the `forward` of `module`, be that of a call without hooks.

    To be called from a hook of torch's, and only if there are no global hooks but ours. Python 3.10 keeps a traceback
    of its own while an error is being handled, which stays as it is.
    """
    trace = error.__traceback__
    if trace is None or trace.tb_next is None or WITHOUT_HOOKS is None:
        return
    is_hooked = trace.tb_frame.f_code is CALL and trace.tb_next.tb_frame.f_code is WITHOUT_HOOKS.inner
    if is_hooked and not has_own_hooks(module):
        forward = trace.tb_next.tb_next
        error.__traceback__ = TracebackType(forward, trace.tb_frame, WITHOUT_HOOKS.instruction, WITHOUT_HOOKS.line)
