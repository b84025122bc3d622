"""Keeps what is written where the user said: no link that somebody has put there leads it anywhere else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from instrumentor.errors import OutputLeadsOutError

if TYPE_CHECKING:
    from pathlib import Path


def refuse_to_leave(target: Path, within: Path) -> None:
    """Check that `target` lies in the directory `within`, behind all links too, those that lead to nothing included.

    Raises:
        OutputLeadsOutError: it lies elsewhere.
    """
    try:
        real, top = os.path.realpath(target), os.path.realpath(within)
    except (OSError, ValueError):  # No path at all: who writes there is told so.
        return
    if real != top and not real.startswith(os.path.join(top, "")):  # noqa: PTH118
        raise OutputLeadsOutError(
            f"points outside {within}, to {real}, where nothing is written; remove the link, or name that file itself "
            "if you mean it",
            path=str(target),
        )


def refuse_dangling(target: Path) -> None:
    """Check that a file which the user named, if it is a link, leads to something or stays in its directory.

    A file that is there already, behind a link of that name, is the user's to replace. That a new one would come into
    being somewhere else, the name does not tell.

    Raises:
        OutputLeadsOutError: it is a link to nothing, elsewhere.
    """
    if os.path.islink(target) and not os.path.exists(target):  # noqa: PTH110, PTH114  These raise nothing.
        refuse_to_leave(target, target.parent)


def is_within(target: Path, within: Path) -> bool:
    """Whether `refuse_to_leave` would let a file be written."""
    try:
        refuse_to_leave(target, within)
    except OutputLeadsOutError:
        return False
    return True
