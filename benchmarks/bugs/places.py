"""Places in scripts, as a summary tells them."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

TOLERANCE_LINES: Final = 2
"""How far from the marked line a place may be: `zero_grad`, `backward` and `step` stand in lines that follow."""


def line_in(place: str, script: str) -> int | None:
    """The line of "FILE:LINE", if the file has the name of the script; else None."""
    file, _, line = place.rpartition(":")
    return int(line) if line.isdecimal() and PurePath(file).name == script else None
