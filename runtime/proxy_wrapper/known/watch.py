"""Which steps are recorded, which parameters and buffers are watched, and of what there are statistics."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import msgspec

from proxy_wrapper.kept_statistics import ALL, STATE

if TYPE_CHECKING:
    from collections.abc import Sequence


class Watch(msgspec.Struct, frozen=True, gc=False):
    """What was asked for of a module, and of all below it that were not asked for anything else.

    An iteration ends with each step of the optimizer that steps most often (of two that take turns, the first): in a
    program with several optimizers, whatever happens between two of its steps belongs to the same iteration.

    Args:
        first: iterations at the start that are all recorded.
        every: after those, each `every`-th is.
        include: globs of the parameters and buffers that are watched; none given, all are.
        exclude: globs of those that are not.
        statistics: of what there are statistics (see `kept_statistics`).
        flow: whether the tests and loops of its code are recorded.
    """

    first: int = 0
    every: int = 1
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    statistics: str = STATE
    flow: bool = False

    @property
    def wants_outputs(self) -> bool:
        """Whether there are statistics of what modules put out."""
        return self.statistics != STATE

    @property
    def wants_all(self) -> bool:
        """Whether there are statistics of everything."""
        return self.statistics == ALL

    def records(self, iteration: int) -> bool:
        """Whether what happens in `iteration`, counted from 0, is recorded."""
        return iteration < self.first or (iteration - self.first) % self.every == 0

    def chooses(self, name: str) -> bool:
        """Whether the tensor of state `name`, of the root's name and the `state_dict` name, is watched.

        A glob may be written for the whole name ("model.encoder.*") or without the root's ("encoder.*").
        """
        names = (name, name.partition(".")[2])
        return (not self.include or _matches(names, self.include)) and not _matches(names, self.exclude)


def _matches(names: Sequence[str], globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for name in names for glob in globs)
