"""The settings of which iterations, parameters, buffers and statistics are recorded."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import msgspec

from proxy_wrapper.kept_statistics import ALL, STATE

if TYPE_CHECKING:
    from collections.abc import Sequence


class Watch(msgspec.Struct, frozen=True, gc=False):
    """The settings of a module, and of its submodules without settings of their own.

    An iteration ends with each step of the optimizer that steps most often (the first one, if two alternate). In a
    program with several optimizers, everything between two of its steps belongs to the same iteration.

    Args:
        first: the number of iterations at the start that are all recorded.
        every: after those, every `every`-th iteration is recorded.
        include: globs for the parameters and buffers that are watched; if empty, all are.
        exclude: globs for those that are not.
        statistics: what there are statistics of (see `kept_statistics`).
        flow: whether the conditions and loops of its code are recorded.
    """

    first: int = 0
    every: int = 1
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    statistics: str = STATE
    flow: bool = False

    @property
    def wants_outputs(self) -> bool:
        """Whether there are statistics of module outputs."""
        return self.statistics != STATE

    @property
    def wants_all(self) -> bool:
        """Whether there are statistics of everything."""
        return self.statistics == ALL

    def records(self, iteration: int) -> bool:
        """Whether `iteration`, counted from 0, is recorded."""
        return iteration < self.first or (iteration - self.first) % self.every == 0

    def chooses(self, name: str) -> bool:
        """Whether the state tensor `name` (the root's name and the `state_dict` name) is watched.

        A glob may match the full name ("model.encoder.*") or the name without the root's ("encoder.*").
        """
        names = (name, name.partition(".")[2])
        return (not self.include or _matches(names, self.include)) and not _matches(names, self.exclude)


def _matches(names: Sequence[str], globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for name in names for glob in globs)
