"""How torch calls the `forward` of a module with hooks, and of one without.

For a module with hooks, global or its own, a function inside torch's `_call_impl` calls `forward`. For one without,
`_call_impl` calls it itself.
"""

from __future__ import annotations

import dis
from types import CodeType
from typing import Final, NamedTuple

from torch import nn

CALL: Final = nn.Module._call_impl.__code__
_OWN_HOOKS: Final = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")


class CallWithoutHooks(NamedTuple):
    """Where `_call_impl` calls `forward` without hooks, and its inner function for modules with hooks."""

    instruction: int
    line: int
    inner: CodeType


def _find_call() -> CallWithoutHooks | None:
    """The call in this version of torch; None if the code does not look as expected."""
    inner = next((each for each in CALL.co_consts if isinstance(each, CodeType) and each.co_name == "inner"), None)
    calls = (each.offset for each in dis.get_instructions(CALL) if each.opname == "CALL_FUNCTION_EX")
    offset = next(calls, None)
    if inner is None or offset is None:
        return None
    line = next((line for start, end, line in CALL.co_lines() if start <= offset < end), None)
    return CallWithoutHooks(offset, line, inner) if line is not None else None


WITHOUT_HOOKS: Final = _find_call()


def has_own_hooks(module: nn.Module) -> bool:
    """Whether a module has its own hooks, so that torch calls it through the inner function in any case."""
    return any(module.__dict__.get(hooks) for hooks in _OWN_HOOKS)
