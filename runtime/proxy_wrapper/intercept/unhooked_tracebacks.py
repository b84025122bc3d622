"""Keeps tracebacks of errors in modules as they are without tracing.

A module that has hooks, be they global ones, has its `forward` called by a function inside torch's `_call_impl`; one
that has none, by `_call_impl` itself. That function is left out of the traceback where only ours are the reason for it.
"""

from __future__ import annotations

import dis
from types import CodeType, TracebackType
from typing import Final, NamedTuple

from torch import nn

_CALL: Final = nn.Module._call_impl.__code__
_OWN_HOOKS: Final = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")


class CallWithoutHooks(NamedTuple):
    """Where `_call_impl` calls the `forward` of a module without hooks, and the function that it has for others."""

    instruction: int
    line: int
    inner: CodeType


def _find_call() -> CallWithoutHooks | None:
    """Find it in the code of this version of torch; None if that does not look as expected."""
    inner = next((each for each in _CALL.co_consts if isinstance(each, CodeType) and each.co_name == "inner"), None)
    calls = (each.offset for each in dis.get_instructions(_CALL) if each.opname == "CALL_FUNCTION_EX")
    offset = next(calls, None)
    if inner is None or offset is None:
        return None
    line = next((line for start, end, line in _CALL.co_lines() if start <= offset < end), None)
    return CallWithoutHooks(offset, line, inner) if line is not None else None


_WITHOUT_HOOKS: Final = _find_call()


def show_as_unhooked(module: nn.Module, error: BaseException) -> None:
    """Let the traceback of `error`, which has just left the `forward` of `module`, be that of a call without hooks.

    To be called from a hook of torch's, and only if there are no global hooks but ours. Python 3.10 keeps a traceback
    of its own while an error is being handled, which stays as it is.
    """
    trace = error.__traceback__
    if trace is None or trace.tb_next is None or _WITHOUT_HOOKS is None:
        return
    is_hooked = trace.tb_frame.f_code is _CALL and trace.tb_next.tb_frame.f_code is _WITHOUT_HOOKS.inner
    if is_hooked and not any(module.__dict__.get(hooks) for hooks in _OWN_HOOKS):
        forward = trace.tb_next.tb_next
        error.__traceback__ = TracebackType(forward, trace.tb_frame, _WITHOUT_HOOKS.instruction, _WITHOUT_HOOKS.line)
