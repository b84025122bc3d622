"""Aligns two streams of records by their keys, as a merge with bounded look-ahead."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_trace.comparison.records.side import Key, Record

LOOK_AHEAD: Final = 1 << 13
"""The maximum number of records between the point where the streams diverge and the one where they match again."""

_FIRST_WINDOW: Final = 32
_GROWTH: Final = 4
_MATCHES: Final = 4
"""The number of consecutive records that must match before the streams count as aligned again."""

_CANDIDATES: Final = 8


class Apart(NamedTuple):
    """What lies between two places where the streams match: the records of each that the other lacks there."""

    first: list[Record]
    second: list[Record]


class Aligner:
    """Aligns two streams of records."""

    def __init__(self, first: Iterator[Record], second: Iterator[Record]) -> None:
        self._streams = (first, second)
        self._ahead: tuple[deque[Record], deque[Record]] = (deque(), deque())

    def __iter__(self) -> Iterator[tuple[Record, Record] | Apart]:
        """Yield pairs of matching records, and what lies between them, up to the end of one stream."""
        first, second = self._streams
        ahead_first, ahead_second = self._ahead
        while True:
            one = ahead_first.popleft() if ahead_first else next(first, None)
            other = ahead_second.popleft() if ahead_second else next(second, None)
            if one is None or other is None:
                break
            if one[0] == other[0]:
                yield one, other
            else:
                ahead_first.appendleft(one)
                ahead_second.appendleft(other)
                yield self._apart()
        if one is not None:
            ahead_first.appendleft(one)
        if other is not None:
            ahead_second.appendleft(other)

    def rest(self, number: int) -> Iterator[Record]:
        """The rest of the first stream (0) or the second (1), after the other has ended."""
        ahead = self._ahead[number]
        while ahead:
            yield ahead.popleft()
        yield from self._streams[number]

    def _apart(self) -> Apart:
        """Take the records before the next match from both streams.

        The window grows with the distance, so the time is proportional to the number of records taken. If there is no
        match within the look-ahead, all records in it are taken.
        """
        window = _FIRST_WINDOW
        while True:
            has_ended = [self._fill(number, window) for number in (0, 1)]
            keys = [[record[0] for record in islice(ahead, window)] for ahead in self._ahead]
            found = _nearest_match(keys, has_ended)
            if found is not None and (sum(found) <= window or all(has_ended)):
                break
            if window >= LOOK_AHEAD or all(has_ended):
                found = found or (len(keys[0]), len(keys[1]))
                break
            window *= _GROWTH
        return Apart(
            *([ahead.popleft() for _ in range(count)] for ahead, count in zip(self._ahead, found, strict=True))
        )

    def _fill(self, number: int, window: int) -> bool:
        """Buffer the next `window` records of a stream. Returns whether it has fewer."""
        ahead = self._ahead[number]
        ahead.extend(islice(self._streams[number], max(0, window - len(ahead))))
        return len(ahead) < window


def _nearest_match(keys: Sequence[Sequence[Key]], has_ended: Sequence[bool]) -> tuple[int, int] | None:
    """How many keys to skip in each stream to reach the nearest match; None if there is none.

    Args:
        keys: the keys of the first stream and of the second.
        has_ended: whether the keys are the rest of the stream. Fewer matches are then enough.
    """
    first, second = keys
    positions: dict[Key, list[int]] = {}
    for at, key in enumerate(second):
        known = positions.setdefault(key, [])
        if len(known) < _CANDIDATES:
            known.append(at)
    best: tuple[int, int] | None = None
    for i, key in enumerate(first):
        if best is not None and i >= sum(best):
            break
        for j in positions.get(key, ()):
            if best is not None and i + j >= sum(best):
                break
            wanted = min(
                [_MATCHES] + [len(of) - at for of, at, ended in zip(keys, (i, j), has_ended, strict=True) if ended]
            )
            if first[i : i + wanted] == second[j : j + wanted]:
                best = (i, j)
                break
    return best
