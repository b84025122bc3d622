"""Finds what differs between traces of models that should hold the same: ranks of a run, or two runs of a script.

What is compared is what a trace has of every parameter after every optimizer step: the fingerprint of its bits. Traces
of older versions have none. There it is minimum and maximum, which are elements and must be equal to the bit, the
number of non-finite elements, and the L2 norm. A norm depends on the order in which it is summed up, which depends on
the machine and its threads, so norms count as equal up to a relative 2**-20; a value that moves an element past the
minimum or the maximum, or the norm by more than that, is seen.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from proxy_trace.tensors.same_values import has_bits
from proxy_wrapper import events

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
    if has_bits(first) and has_bits(second):
        return events.have_same_values(first, second)
    if (first.minimum, first.maximum, first.nonfinite) != (second.minimum, second.maximum, second.nonfinite):
        return False
    one, other = first.norm, second.norm
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_NORM_TOLERANCE)
    return one == other
