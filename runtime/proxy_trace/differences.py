"""Finds what differs between traces of models that should hold the same: ranks of a run, or two runs of a script.

What is compared is what a trace has of every parameter after every optimizer step: the fingerprint of its bits. Traces
of older versions have none. There it is minimum and maximum, which are elements and must be equal to the bit, the
number of non-finite elements, and the L2 norm. A norm depends on the order in which it is summed up, which depends on
the machine and its threads, so norms count as equal up to a relative 2**-20; a value that moves an element past the
minimum or the maximum, or the norm by more than that, is seen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from proxy_trace.same_values import has_bits
from proxy_wrapper import events  # noqa: TC001  msgspec looks the types of fields up.

if TYPE_CHECKING:
    from collections.abc import Sequence

_NORM_TOLERANCE: Final = 2.0**-20


class Difference(msgspec.Struct):
    """Something that differs between traces that should agree.

    Attributes:
        name: the parameter, buffer or tensor of optimizer state.
        kind: "parameter", "gradient", "buffer" or "optimizer state".
        first_step: the first step after which it differed (for a gradient: in which).
        last_step: the last.
        steps: after how many steps it differed, of `compared`.
        compared: how many steps had it in all of them.
        values: the statistics at `first_step`, one for each that differs from the others.
    """

    name: str
    kind: str
    first_step: int
    last_step: int
    steps: int
    compared: int
    values: list[events.Statistics | None]


class GroupedDifference(Difference):
    """A difference between any number of traces, some of which may agree with each other.

    Attributes:
        groups: the traces at `first_step` by number (of ranks, the rank), those that agreed together, as in `values`.
        agreed: after how many steps all agreed before the first difference.
        agrees_again: whether all agreed after some step behind the first difference.
        gradient_step: for a parameter, the first step in which its gradient differed; None if that never did.
        same_start: for a parameter, whether all started training from the same values; None if that is not known.
    """

    groups: list[list[int]]
    agreed: int
    agrees_again: bool = False
    gradient_step: int | None = None
    same_start: bool | None = None


def is_same(first: events.Statistics | None, second: events.Statistics | None) -> bool:
    """Whether two statistics are those of the same values; where fingerprints are missing, whether they can be."""
    if first is None or second is None:
        return first is second
    if first.bits is not None and second.bits is not None:
        return first.bits == second.bits
    if (first.minimum, first.maximum, first.nonfinite) != (second.minimum, second.maximum, second.nonfinite):
        return False
    one, other = first.norm, second.norm
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_NORM_TOLERANCE)
    return one == other


class DifferenceCollector:
    """Collects differences, and how often there was none; of each name, in the order of the steps."""

    def __init__(self, numbers: Sequence[int]) -> None:
        """Collect nothing yet.

        Args:
            numbers: by which each process is told from the others, such as the rank.
        """
        self._numbers = numbers
        self._compared: dict[tuple[str, str], tuple[int, int]] = {}
        self._differences: dict[tuple[str, str], GroupedDifference] = {}

    def compare(self, kind: str, name: str, step: int, held: list[tuple[int, events.Statistics | None]]) -> None:
        """Compare what several processes held, or found, at the end of a step.

        Args:
            kind: "parameter", "gradient", "buffer" or "optimizer state".
            name: what it is called.
            step: which step.
            held: the values, each with those that had them: the bits of a number, that of the first process the lowest.
        """
        key = kind, name
        before, first_step = self._compared.get(key, (0, step))
        self._compared[key] = (before + 1, first_step)
        known = self._differences.get(key)
        groups = _agreeing(held)
        if len(groups) == 1:
            if known is not None:
                known.agrees_again = True
            return
        if known is None:
            values = [values for _, values in groups]
            numbers = [self._numbers_of(members) for members, _ in groups]
            known = GroupedDifference(name, kind, step, step, 0, 0, values, numbers, agreed=before)
            self._differences[key] = known
        known.last_step = step
        known.steps += 1

    def differences(self, kind: str) -> list[GroupedDifference]:
        """The differences of a kind, the earliest first."""
        found = [difference for (of, _), difference in self._differences.items() if of == kind]
        for difference in found:
            difference.compared, _ = self._compared[kind, difference.name]
        return sorted(found, key=lambda difference: (difference.first_step, difference.name))

    def compared(self, kind: str) -> list[str]:
        """The names of a kind that were compared, those first that were compared first."""
        found = [(first_step, name) for (of, name), (_, first_step) in self._compared.items() if of == kind]
        return [name for _, name in sorted(found)]

    @property
    def has_compared_any(self) -> bool:
        """Whether anything was compared."""
        return bool(self._compared)

    def _numbers_of(self, members: int) -> list[int]:
        return [number for place, number in enumerate(self._numbers) if members >> place & 1]


def _agreeing(held: list[tuple[int, events.Statistics | None]]) -> list[tuple[int, events.Statistics | None]]:
    """Those that hold the same together, each group with what the first process in it holds."""
    if len(held) == 1:
        return held
    in_order = sorted(held, key=lambda each: each[0] & -each[0])
    if all(has_bits(values) for _, values in in_order):
        by_bits: dict[str | None, tuple[int, events.Statistics | None]] = {}
        for members, values in in_order:
            bits = values.bits if values is not None else None
            known, first = by_bits.get(bits, (0, values))
            by_bits[bits] = (known | members, first)
        return list(by_bits.values())
    groups: list[tuple[int, events.Statistics | None]] = []
    for members, values in in_order:
        for place, (known, first) in enumerate(groups):
            if is_same(values, first):
                groups[place] = (known | members, first)
                break
        else:
            groups.append((members, values))
    return groups
