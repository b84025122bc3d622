"""Folders that git ignores."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def keep_out_of_commits(folder: Path) -> None:
    """Make git ignore everything in `folder`, including the file written here.

    If that file cannot be written, the trace is still complete.
    """
    with contextlib.suppress(OSError), (folder / ".gitignore").open("x", encoding="ascii") as file:
        file.write("*\n")
