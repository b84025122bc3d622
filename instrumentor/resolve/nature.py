"""The kinds of objects that calls make."""

from __future__ import annotations

from enum import IntEnum


class Nature(IntEnum):
    """The kind of object that a call makes. Of several possible kinds, the greatest counts.

    The order reflects the cost of mistakes: a needless proxy is harmless, a missing one is not.
    """

    NOT_MODULE = 0
    NO_PARAMS = 1
    UNKNOWN = 2
    MODULE = 3
