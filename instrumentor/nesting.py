"""Room for deeply nested code: expressions are looked into by functions that call themselves, twice for each level."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# A sum of some 5,000 terms: more than Python's own compiler takes.
_FRAMES = 11_000


@contextmanager
def room_for_nesting() -> Iterator[None]:
    """Let calls nest more deeply for a while, where calls of Python functions take no room on the stack of C."""
    before = sys.getrecursionlimit()
    if sys.version_info >= (3, 11):
        sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
