"""Calls functions on behalf of the program's own lines, so that warnings and tracebacks stay the same.

A warning belongs to the line that caused it: filters go by that line's module, which also stores what was already
shown. If our code stands between that line and torch, the call goes through a one-line function that has the file,
line and globals of the program's line. Tracebacks of errors contain no code of ours either.
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
"""The code in which torch's Python functions look for modes."""


class CallSites:
    """Creates functions that call another one as if the program's line did.

    Attributes:
        codes: the code of such a function per call site: the id of the code object there, and the instruction.
    """

    def __init__(self) -> None:
        self.codes: dict[tuple[int, int], CodeType] = {}
        # The key holds an id because the hash of a code object reads all its instructions. The code objects are kept so
        # that ids stay unique. Globals are not kept, so that what they hold can be freed.
        self._known: list[CodeType] = []

    def of(self, asking: FrameType) -> Callable[[Callable[..., Any], Any, dict[str, Any]], Any]:
        """A function `call(func, args, kwargs)` that calls `func(*args, **kwargs)` from the program's line.

        Args:
            asking: the frame that called `__torch_function__`.
        """
        frame = asking
        if frame.f_code is DISPATCHER:  # Called by torch's own Python function, which is called again.
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
    """`function` itself, changed so that `warnings.warn` and `logging` do not count it in `stacklevel`.

    Both skip frames of the import system, which they recognise by its file name. So a warning about a caller names the
    same line with or without our function in between.
    """
    plain = cast("FunctionType", function)
    plain.__code__ = plain.__code__.replace(co_filename=UNCOUNTED)
    return function


def hide_frames(error: BaseException, count: int = 1) -> None:
    """Remove from the traceback of `error` the frame that caught it and the frames it called, `count` in all.

    Follow it with a bare `raise`. Python 3.10 keeps its own traceback, which still has these frames.
    """
    trace = error.__traceback__
    for _ in range(count):
        if trace is not None:
            trace = trace.tb_next
    error.__traceback__ = trace
