"""Stack depth for deeply nested code: expressions are walked recursively, with two calls per level."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Enough for a sum of some 5,000 terms, which is more than Python's own compiler accepts.
_FRAMES = 11_000


@contextmanager
def room_for_nesting() -> Iterator[None]:
    """Raise the recursion limit for a while, on Pythons whose function calls use no C stack."""
    before = sys.getrecursionlimit()
    if sys.version_info >= (3, 11):
        sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
