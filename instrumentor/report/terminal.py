"""The capabilities of an output stream."""

from __future__ import annotations

import os
import shutil
from typing import TextIO


def uses_color(stream: TextIO) -> bool:
    """Tell whether `stream` gets colours: a terminal does, unless NO_COLOR says no; FORCE_COLOR says yes."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def line_width(stream: TextIO) -> int | None:
    """The line width of `stream` in columns; None if it is unlimited (a pipe, a file)."""
    if stream.isatty():
        return shutil.get_terminal_size().columns
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) > 0 else None


def encoding_of(stream: TextIO) -> str:
    """The encoding of `stream`."""
    return stream.encoding or "utf-8"
