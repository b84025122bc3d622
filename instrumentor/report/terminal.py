"""What a stream can show."""

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
    """Measure the columns of a line on `stream`; None where nothing limits them (a pipe, a file)."""
    if stream.isatty():
        return shutil.get_terminal_size().columns
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) > 0 else None


def encoding_of(stream: TextIO) -> str:
    """Name the encoding that `stream` shows text in."""
    return stream.encoding or "utf-8"
