"""Places in the script, with their callers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from proxy_trace.reading.names import Names

_CALLERS: Final = 256


class Place(msgspec.Struct, frozen=True):
    """A line of the original script; `callers` are the lines that called it, innermost first, as "file:line"."""

    file: str
    line: int
    function: str
    callers: list[str] = []

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def find_place(id_: int, names: Names) -> Place | None:
    """The place of a location's id; None if the trace does not define it."""
    location = names.locations.get(id_)
    if location is None:
        return None
    callers: list[str] = []
    caller = location.caller
    while caller and len(callers) < _CALLERS:  # A trace may contain a cycle.
        callers.append(names.place(caller))
        above = names.locations.get(caller)
        caller = above.caller if above is not None else 0
    return Place(location.file, location.line, location.function, callers)
