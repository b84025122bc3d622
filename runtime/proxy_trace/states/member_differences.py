"""Collects differences between several processes; processes with equal values are grouped.

A set of processes is an integer with one bit per process, the first process being the lowest bit. Comparing a thousand
processes that agree therefore costs as much as comparing two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.states.differences import GroupedDifference, is_same
from proxy_trace.tensors.same_values import has_bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_wrapper import events


class MemberDifferences:
    """Collects differences, and the number of comparisons without one. Steps of a name come in order."""

    def __init__(self, numbers: Sequence[int]) -> None:
        """Start without differences.

        Args:
            numbers: the number of each process, such as its rank.
        """
        self._numbers = numbers
        self._compared: dict[tuple[str, str], tuple[int, int]] = {}
        self._differences: dict[tuple[str, str], GroupedDifference] = {}

    def compare(self, kind: str, name: str, step: int, held: list[tuple[int, events.Statistics | None]]) -> None:
        """Compare the values of several processes at the end of a step.

        Args:
            kind: "parameter", "gradient", "buffer" or "optimizer state".
            name: its name.
            step: the step.
            held: the values, each with the set of processes that have it.
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
        """The differences of a kind, earliest first."""
        found = [difference for (of, _), difference in self._differences.items() if of == kind]
        for difference in found:
            difference.compared, _ = self._compared[kind, difference.name]
        return sorted(found, key=lambda difference: (difference.first_step, difference.name))

    def compared(self, kind: str) -> list[str]:
        """The compared names of a kind, in the order of their first comparison."""
        found = [(first_step, name) for (of, name), (_, first_step) in self._compared.items() if of == kind]
        return [name for _, name in sorted(found)]

    @property
    def has_compared_any(self) -> bool:
        """Whether anything was compared."""
        return bool(self._compared)

    def _numbers_of(self, members: int) -> list[int]:
        return [number for place, number in enumerate(self._numbers) if members >> place & 1]


def _agreeing(held: list[tuple[int, events.Statistics | None]]) -> list[tuple[int, events.Statistics | None]]:
    """Merge processes with the same values; each group has the value of its first process."""
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
