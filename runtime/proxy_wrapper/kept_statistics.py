"""Of what a trace keeps statistics: three choices, each including those before it."""

from __future__ import annotations

from typing import Final

from proxy_wrapper.errors import SettingsValueError

STATE: Final = "state"
"""Parameters, buffers and gradients."""

OUTPUTS: Final = "outputs"
"""What modules put out as well."""

ALL: Final = "all"
"""Optimizer state as well and, at DEBUG, what torch calls put out or change, and tensors that attributes give."""

STATISTICS: Final = (STATE, OUTPUTS, ALL)


def parse_statistics(statistics: object) -> str:
    """The choice itself.

    Raises:
        SettingsValueError: if it is none of the three; the message lists them.
    """
    for known in STATISTICS:
        if isinstance(statistics, str) and statistics == known:
            return known
    raise SettingsValueError("statistics", statistics, f"one of {', '.join(map(repr, STATISTICS))}")
