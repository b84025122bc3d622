"""Counts how often a loop runs, and notes when it ends, without any code of ours in between.

A loop goes over an iterator that takes from the program's own and counts, all of it implemented in C: it has no frame
that a traceback could show, and asks for the next element exactly when the loop does. It belongs to the loop alone, so
Python frees it when the loop ends: by its own end, `break`, `return` or an exception, or with a generator that is given
up. A weak reference then puts itself on a list; no code runs that a signal could interrupt.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from itertools import compress, repeat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Held:
    """Lives as long as the iterator that holds it."""

    __slots__ = ("__weakref__",)


class OpenLoop(weakref.ref["_Held"]):
    """A loop that is running, or has ended and was not told of yet.

    Attributes:
        made: what is to be told of it, as it was when the loop began.
    """

    __slots__ = ("_counter", "made")

    def __init__(self, held: _Held, callback: Callable[[OpenLoop], None], counter: repeat[bool], made: Any) -> None:
        super().__init__(held, callback)  # type: ignore[call-arg]
        self._counter = counter
        self.made = made

    def __new__(cls, held: _Held, callback: Callable[[OpenLoop], None], *_: object) -> OpenLoop:  # noqa: D102
        return super().__new__(cls, held, callback)

    @property
    def iterations(self) -> int:
        """How many elements it has taken."""
        return sys.maxsize - self._counter.__length_hint__()


class Loops:
    """The loops that are running."""

    def __init__(self) -> None:
        self._open: dict[int, OpenLoop] = {}
        self._ended: deque[OpenLoop] = deque()

    def follow(self, iterator: Iterator[Any], made: Any) -> Iterator[Any]:
        """What a loop goes over in place of `iterator`; `made` is given back with it when it has ended."""
        held, counter = _Held(), repeat(True, sys.maxsize)
        loop = OpenLoop(held, self._ended.append, counter, made)
        self._open[id(loop)] = loop
        return compress(iterator, compress(counter, repeat(held)))

    def take_ended(self) -> list[OpenLoop]:
        """The loops that have ended since this was asked last, in that order."""
        ended = self._ended
        taken = []
        while ended:
            try:
                loop = ended.popleft()
            except IndexError:  # Another thread has taken it.
                break
            self._open.pop(id(loop), None)
            taken.append(loop)
        return taken

    def forget(self) -> None:
        """Tell of no loop that is running."""
        self._open.clear()
        self._ended.clear()
