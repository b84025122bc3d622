"""How a reading function reports its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Report: TypeAlias = "Callable[[int], None]"
"""Called now and then by a reading function, with the number of bytes read since the last call."""
