"""The variables of a running function, read so that nothing changes for the program."""

from __future__ import annotations

import sys
from inspect import CO_OPTIMIZED
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import FrameType

_READERS: Final = frozenset({"locals", "vars", "dir", "eval", "exec"})


def values_of(frame: FrameType) -> dict[str, Any]:
    """The variables of a frame with their values; nothing changes for the program by the reading of them.

    Before Python 3.13 a function has one dictionary for all who ask for its variables. It would keep the values alive,
    so it is emptied; where the program itself may have asked for it, it is left alone.
    """
    if not frame.f_code.co_flags & CO_OPTIMIZED or sys.version_info >= (3, 13):
        return dict(frame.f_locals)
    if not _READERS.isdisjoint(frame.f_code.co_names):
        return {}
    shared = frame.f_locals
    values = dict(shared)
    shared.clear()
    return values
