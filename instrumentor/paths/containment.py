"""Keeps output in the directory that the user named, even if links in it lead elsewhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from instrumentor.errors import OutputLeadsOutError

if TYPE_CHECKING:
    from pathlib import Path


def refuse_to_leave(target: Path, within: Path) -> None:
    """Check that `target` is in the directory `within` after following all links, dangling ones included.

    Raises:
        OutputLeadsOutError: it is elsewhere.
    """
    try:
        real, top = os.path.realpath(target), os.path.realpath(within)
    except (OSError, ValueError):  # An invalid path, which is reported when it is written.
        return
    if real != top and not real.startswith(os.path.join(top, "")):  # noqa: PTH118
        raise OutputLeadsOutError(
            f"points outside {within}, to {real}, where nothing is written; remove the link, or name that file itself "
            "if you mean it",
            path=str(target),
        )


def refuse_dangling(target: Path) -> None:
    """Check that a file named by the user is not a dangling link out of its directory.

    The user may replace an existing file through a link. But the name does not show that a new file would be created
    somewhere else.

    Raises:
        OutputLeadsOutError: it is a dangling link that leads elsewhere.
    """
    if os.path.islink(target) and not os.path.exists(target):  # noqa: PTH110, PTH114  These raise nothing.
        refuse_to_leave(target, target.parent)


def is_within(target: Path, within: Path) -> bool:
    """Whether `refuse_to_leave` would accept a file."""
    try:
        refuse_to_leave(target, within)
    except OutputLeadsOutError:
        return False
    return True
