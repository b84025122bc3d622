"""How a function that reads tells how far it has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Report: TypeAlias = "Callable[[int], None]"
"""Called by a function that reads, now and then, with the number of bytes that it has read since the last time."""
