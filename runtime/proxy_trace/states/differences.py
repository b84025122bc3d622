"""Finds differences between traces of models that should agree: ranks of a run, or two runs of a script.

The fingerprint of every parameter is compared after every optimizer step. Traces of older versions have none. For them,
the minimum, the maximum and the number of non-finite elements must be equal, and the L2 norms equal up to a relative
2**-20, because a norm depends on the order of summation, which depends on the machine and its threads. A change that
moves an element beyond the minimum or maximum, or the norm by more than that, is detected.
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
        first_step: the first step after which it differed (for a gradient: at which).
        last_step: the last.
        steps: the number of steps after which it differed, out of `compared`.
        compared: the number of steps that all traces have.
        values: the statistics at `first_step`, one for each group that differs from the others.
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
        groups: the agreeing traces at `first_step`, by number (for ranks, the rank), in the order of `values`.
        agreed: the number of steps after which all agreed before the first difference.
        agrees_again: whether all agreed after some step after the first difference.
        gradient_step: for a parameter, the first step at which its gradient differed; None if it never did.
        same_start: for a parameter, whether all started training from the same values; None if unknown.
    """

    groups: list[list[int]]
    agreed: int
    agrees_again: bool = False
    gradient_step: int | None = None
    same_start: bool | None = None


def is_same(first: events.Statistics | None, second: events.Statistics | None) -> bool:
    """Whether two statistics are of the same values; without fingerprints, whether they can be."""
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
