"""Finds consecutive lines in a log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NUMBER = r"-?(\d+(\.\d+)?(e[+-]\d+)?|inf)|nan"
SETTING = r"INFO:root:Setting attribute '_obj' to an updated tensor with shape'torch\.Size\(\[[\d, ]*\]\)'"
VALUES = (SETTING, rf"INFO:root:Minimum value: ({NUMBER})", rf"INFO:root:Maximum value: ({NUMBER})")
"""The three lines of the values that a tensor has been given."""


def count_blocks(lines: Sequence[str], patterns: Sequence[str]) -> int:
    """How often lines that match these patterns, each as a whole, stand one after the other."""
    matches = [re.compile(pattern).fullmatch for pattern in patterns]
    return sum(
        all(match(line) for match, line in zip(matches, lines[start : start + len(matches)], strict=True))
        for start in range(len(lines) - len(matches) + 1)
    )
