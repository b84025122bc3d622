"""The choices of what a trace has statistics of. Each of the three includes those before it."""

from __future__ import annotations

from typing import Final

from proxy_wrapper.errors import SettingsValueError

STATE: Final = "state"
"""Parameters, buffers and gradients."""

OUTPUTS: Final = "outputs"
"""Also the outputs of modules."""

ALL: Final = "all"
"""Also optimizer state and, at DEBUG, tensors that torch calls return or change, or that are read as attributes."""

STATISTICS: Final = (STATE, OUTPUTS, ALL)


def parse_statistics(statistics: object) -> str:
    """`statistics`, if it is one of the choices.

    Raises:
        SettingsValueError: if it is not; the message lists the choices.
    """
    for known in STATISTICS:
        if isinstance(statistics, str) and statistics == known:
            return known
    raise SettingsValueError("statistics", statistics, f"one of {', '.join(map(repr, STATISTICS))}")
