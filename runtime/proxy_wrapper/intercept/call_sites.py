"""Calls functions on behalf of the program's own lines, so that warnings and tracebacks are as they are without us.

A warning belongs to the line that caused it: the filters of `warnings` go by its module, and what was shown once is
noted there. Where a function of ours stands between that line and torch, the call goes through a function of one line
that has the file, the line and the globals of the program's. No code of ours is in the traceback of an error either.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from torch.overrides import handle_torch_function

from proxy_wrapper.places.location import STAND_IN, UNCOUNTED

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

F = TypeVar("F", bound="Callable[..., Any]")

_CALL: Final = (lambda func, args, kwargs: func(*args, **kwargs)).__code__.replace(co_name=STAND_IN)
DISPATCHER: Final = handle_torch_function.__code__
"""The code in which torch's own Python functions look for modes."""


class CallSites:
    """Makes functions that call another one as if the program did.

    Attributes:
        codes: that of such a function, for each place that one was made for: the id of the code there, and the
            instruction.
    """

    def __init__(self) -> None:
        self.codes: dict[tuple[int, int], CodeType] = {}
        # By id, since the hash of a code object reads all its instructions; kept, so that the ids stay their own. The
        # globals are not: what is in them must be free to go.
        self._known: list[CodeType] = []

    def of(self, asking: FrameType) -> Callable[[Callable[..., Any], Any, dict[str, Any]], Any]:
        """What calls `func(*args, **kwargs)`, given as three arguments, from where the program does.

        Args:
            asking: the frame that called `__torch_function__`.
        """
        frame = asking
        if frame.f_code is DISPATCHER:  # Called by one of torch's Python functions, which is about to be called again.
            for _ in range(2):
                frame = frame.f_back or frame
        code = frame.f_code
        key = (id(code), frame.f_lasti)
        made = self.codes.get(key)
        if made is None:
            line = frame.f_lineno or code.co_firstlineno
            made = self.codes[key] = _CALL.replace(co_filename=code.co_filename, co_firstlineno=line)
            self._known.append(code)
        return FunctionType(made, frame.f_globals)


def uncounted(function: F) -> F:
    """`function` itself, whose calls `stacklevel` passes over: those of `warnings.warn` and of `logging`.

    Both count callers without the import system's, which they know by the name of its file. So a warning that names the
    caller of what was called names the same line whether or not a function of ours stands between.
    """
    plain = cast("FunctionType", function)
    plain.__code__ = plain.__code__.replace(co_filename=UNCOUNTED)
    return function


def hide_frames(error: BaseException, count: int = 1) -> None:
    """Leave the frame that has caught `error`, and those it called, `count` in all, out of the traceback.

    To be followed by a bare `raise`. Python 3.10 keeps a traceback of its own, which then has them still.
    """
    trace = error.__traceback__
    for _ in range(count):
        if trace is not None:
            trace = trace.tb_next
    error.__traceback__ = trace
