"""Counts the iterations of loops, and notes when they end, without running Python code of ours.

A loop uses an iterator that wraps the program's own and counts. It is implemented in C, so it has no frame in
tracebacks, and it takes the next element exactly when the loop does. Only the loop refers to it, so Python frees it
when the loop ends, whether normally, by `break`, `return` or an exception, or with an abandoned generator. A weak
reference then appends itself to a list, so no code runs that a signal could interrupt.
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
    """A loop that is running, or has ended and has not been reported yet.

    Attributes:
        made: the data to report with it, from the time when the loop began.
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
        """The number of elements that it has consumed."""
        return sys.maxsize - self._counter.__length_hint__()


class Loops:
    """The loops that are running."""

    def __init__(self) -> None:
        self._open: dict[int, OpenLoop] = {}
        self._ended: deque[OpenLoop] = deque()

    def follow(self, iterator: Iterator[Any], made: Any) -> Iterator[Any]:
        """The iterator that a loop uses in place of `iterator`. `made` is returned with the loop when it has ended."""
        held, counter = _Held(), repeat(True, sys.maxsize)
        loop = OpenLoop(held, self._ended.append, counter, made)
        self._open[id(loop)] = loop
        return compress(iterator, compress(counter, repeat(held)))

    def take_ended(self) -> list[OpenLoop]:
        """The loops that have ended since the last call, in order."""
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
        """Drop all running loops, so that they are never reported."""
        self._open.clear()
        self._ended.clear()
