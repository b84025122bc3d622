"""The settings of a whole `logdir`: which processes write a trace, and how large it may grow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from proxy_wrapper.errors import SettingsValueError

if TYPE_CHECKING:
    from typing_extensions import Self

_SPAN: Final = re.compile(r"\s*([0-9]{1,7})(?:-([0-9]{1,7}))?\s*")
_MOST_RANKS: Final = 2**20
_SIZE: Final = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,3})?)\s*([KMGT]?)B?\s*", re.IGNORECASE)
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_WANTED_RANKS: Final = 'numbers and spans of numbers, such as "0,8-15"'
_WANTED_SIZE: Final = 'a number of bytes, or a text such as "2G"'


class Ranks:
    """Some of the ranks of a distributed run."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        """Take spans of ranks (first, last), both inclusive, in any order."""
        merged: list[tuple[int, int]] = []
        for first, last in sorted((max(first, 0), min(last, _MOST_RANKS)) for first, last in spans):
            if first <= last and merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            elif first <= last:
                merged.append((first, last))
        self._spans = merged

    @classmethod
    def parse(cls, ranks: str | int | Iterable[int]) -> Self:
        """The ranks in `"0,8-15"`, in `0`, or in `[0, 8]`.

        Raises:
            SettingsValueError: if `ranks` has another form.
        """
        if isinstance(ranks, str):
            found = [_SPAN.fullmatch(part) for part in ranks.split(",")]
            if not all(found):
                raise SettingsValueError("ranks", ranks, _WANTED_RANKS)
            spans = [(int(each[1]), int(each[2] or each[1])) for each in found if each is not None]
        else:
            numbers = [ranks] if isinstance(ranks, int) else list(ranks) if isinstance(ranks, Iterable) else [None]
            if not all(type(each) is int for each in numbers):
                raise SettingsValueError("ranks", ranks, _WANTED_RANKS)
            spans = [(each, each) for each in numbers if each is not None]
        return cls(spans)

    def __contains__(self, rank: object) -> bool:
        return isinstance(rank, int) and any(first <= rank <= last for first, last in self._spans)

    def below(self, world_size: int) -> set[int]:
        """The chosen ranks in a run with `world_size` ranks."""
        return {rank for first, last in self._spans for rank in range(first, min(last + 1, world_size))}

    def __str__(self) -> str:
        return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in self._spans)


class Limits:
    """The limits requested for the trace in one `logdir`.

    Attributes:
        ranks: the ranks that write; None for all.
        max_bytes: how large the trace of this process may grow; None for no limit.
    """

    def __init__(self) -> None:
        self.ranks: Ranks | None = None
        self.max_bytes: int | None = None

    def update(self, ranks: Ranks | None, max_bytes: int | None) -> None:
        """Set the limits that are given."""
        self.ranks = self.ranks if ranks is None else ranks
        self.max_bytes = self.max_bytes if max_bytes is None else max_bytes


def parse_size(size: str | int) -> int:
    """A size in bytes; 2,000,000,000 for `"2G"`.

    Raises:
        SettingsValueError: if `size` is not a size.
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    found = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if found is None:
        raise SettingsValueError("max_size", size, _WANTED_SIZE)
    return int(float(found[1]) * 1000 ** _POWERS[found[2].upper()])
