"""Folders that git leaves out of commits."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def keep_out_of_commits(folder: Path) -> None:
    """Have git ignore what lies in `folder`, this file of ours included.

    Where that cannot be written, nothing else is lost: a trace is as good without.
    """
    with contextlib.suppress(OSError), (folder / ".gitignore").open("x", encoding="ascii") as file:
        file.write("*\n")
