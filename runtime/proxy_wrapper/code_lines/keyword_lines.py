"""Finds the lines of a function that pass arguments by keyword."""

from __future__ import annotations

import dis
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set
    from types import CodeType


def keyword_lines(code: CodeType, keywords: Set[str]) -> set[int]:
    """The lines of a function that pass an argument by one of some keywords."""
    offsets = []
    for each in dis.get_instructions(code):
        value = code.co_consts[each.arg or 0] if each.opname == "KW_NAMES" else each.argval
        if each.opname in ("KW_NAMES", "LOAD_CONST") and isinstance(value, tuple) and not keywords.isdisjoint(value):
            offsets.append(each.offset)
    return {
        line
        for start, end, line in code.co_lines()
        if line is not None and any(start <= offset < end for offset in offsets)
    }
