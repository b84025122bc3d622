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

from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from proxy_trace.step_reader import StepReader

_NORM_TOLERANCE: Final = 2.0**-20
_KINDS: Final[dict[type[events.StateTensor], str]] = {
    events.Parameter: "parameter",
    events.Buffer: "buffer",
    events.OptimizerState: "optimizer state",
}


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
    """Collects differences, and how often there was none."""

    def __init__(self, is_chosen: Callable[[str], bool] | None, *, with_gradients: bool = True) -> None:
        self._is_chosen = is_chosen
        self._with_gradients = with_gradients
        self._compared: dict[tuple[str, str], int] = {}
        self._differences: dict[tuple[str, str], GroupedDifference] = {}
        self._is_first = True

    def compare(self, step: int, readers: Sequence[StepReader]) -> None:
        """Compare what `readers` hold at the end of `step`; after the first time, only what has changed."""
        names = set().union(*(reader.values if self._is_first else reader.changed for reader in readers))
        self._is_first = False
        for name in sorted(names):
            for replicas in replicas_of(name, [reader for reader in readers if name in reader.values]):
                kind = _KINDS[type(replicas[0].tensors[name])]
                self._compare(kind, name, step, [(reader.number, reader.values[name]) for reader in replicas])
        gradients = set().union(*(reader.gradients for reader in readers)) if self._with_gradients else ()
        for name in sorted(gradients):
            for replicas in replicas_of(name, [reader for reader in readers if name in reader.gradients]):
                self._compare("gradient", name, step, [(reader.number, reader.gradients[name]) for reader in replicas])

    def differences(self, kind: str) -> list[GroupedDifference]:
        """The differences of a kind, the earliest first."""
        found = [difference for (of, _), difference in self._differences.items() if of == kind]
        for difference in found:
            difference.compared = self._compared[kind, difference.name]
        return sorted(found, key=lambda difference: (difference.first_step, difference.name))

    def compared(self, kind: str) -> list[str]:
        """The names of a kind that were compared."""
        return [name for of, name in self._compared if of == kind]

    @property
    def has_compared_any(self) -> bool:
        """Whether anything was compared."""
        return bool(self._compared)

    def _compare(self, kind: str, name: str, step: int, held: list[tuple[int, events.Statistics | None]]) -> None:
        if self._is_chosen is not None and not self._is_chosen(name):
            return
        key = kind, name
        before = self._compared.get(key, 0)
        self._compared[key] = before + 1
        groups: list[tuple[events.Statistics | None, list[int]]] = []
        for number, values in held:
            for other, numbers in groups:
                if is_same(values, other):
                    numbers.append(number)
                    break
            else:
                groups.append((values, [number]))
        known = self._differences.get(key)
        if len(groups) == 1:
            if known is not None:
                known.agrees_again = True
            return
        if known is None:
            values_of_groups, numbers_of_groups = [values for values, _ in groups], [numbers for _, numbers in groups]
            known = self._differences[key] = GroupedDifference(
                name, kind, step, step, 0, 0, values_of_groups, numbers_of_groups, agreed=before
            )
        known.last_step = step
        known.steps += 1


def replicas_of(name: str, readers: Iterable[StepReader]) -> list[list[StepReader]]:
    """Those of `readers` that should hold the same under `name`, several to a list."""
    found: dict[tuple[str, str], list[StepReader]] = {}
    for reader in readers:
        tensor = reader.tensors.get(name)
        if tensor is not None:
            found.setdefault((tensor.type, tensor.placements), []).append(reader)
    return [replicas for replicas in found.values() if len(replicas) > 1]
