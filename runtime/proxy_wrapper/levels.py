"""The levels of tracing. Their numbers are those of the standard library's `logging`, whose constants also work."""

from __future__ import annotations

import operator
from typing import Final, SupportsIndex

from proxy_wrapper.errors import UnknownLevelError

WARNING: Final = 30
INFO: Final = 20
DEBUG: Final = 10

_NAMES: Final = {WARNING: "WARNING", INFO: "INFO", DEBUG: "DEBUG"}


def parse_level(level: int | str) -> int:
    """The level as a number.

    Args:
        level: one of the three numbers, or a name in any case.

    Raises:
        UnknownLevelError: for anything else; the message lists the three.
    """
    if isinstance(level, str):
        for number, name in _NAMES.items():
            if name == level.upper():
                return number
    elif isinstance(level, SupportsIndex) and operator.index(level) in _NAMES:
        return operator.index(level)
    raise UnknownLevelError(level, list(_NAMES.values()))


def level_name(level: int) -> str:
    """The name of a level returned by `parse_level`."""
    return _NAMES[level]
