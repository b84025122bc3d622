"""What calling something gives."""

from __future__ import annotations

from enum import IntEnum


class Nature(IntEnum):
    """What kind of object a call makes; where several are possible the greatest counts.

    The order says which mistake is the smaller one: a needless proxy is harmless, a missing one is not.
    """

    NOT_MODULE = 0
    NO_PARAMS = 1
    UNKNOWN = 2
    MODULE = 3
