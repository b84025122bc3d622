"""Collects what differs between several processes, those that hold the same told together.

Which processes are meant is a number whose bits they are, that of the first process the lowest: so it costs as much to
compare a thousand that agree as two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.states.differences import GroupedDifference, is_same
from proxy_trace.tensors.same_values import has_bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_wrapper import events


class MemberDifferences:
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
            held: the values, each with the processes that had them.
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
