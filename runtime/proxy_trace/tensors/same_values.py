"""Whether statistics are of the same values: decided by fingerprints, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy_wrapper.events import Statistics


def are_same_values(first: Statistics | None, second: Statistics | None) -> bool | None:
    """Whether two tensors of one type have the same values; None if their statistics do not show it.

    Traces of older versions have no fingerprints. Different statistics then show different values, but different values
    may have the same minimum, maximum and norm.
    """
    if first is None or second is None:
        return None
    if first.bits is not None and second.bits is not None:
        return first.bits == second.bits
    one = (first.minimum, first.maximum, first.norm, first.nonfinite)
    return None if one == (second.minimum, second.maximum, second.norm, second.nonfinite) else False


def has_bits(statistics: Statistics | None) -> bool:
    """Whether the fingerprint of the values is known."""
    return statistics is not None and statistics.bits is not None
