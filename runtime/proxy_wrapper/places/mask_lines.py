"""Finds the lines of a module's code that pass a mask to attention, or draw numbers with `torch.normal`."""

from __future__ import annotations

import dis
from typing import TYPE_CHECKING, Final

from proxy_wrapper.places.assigned_lines import AssignedLine, named_instructions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

_FUNCTIONS: Final = frozenset({"scaled_dot_product_attention", "masked_fill", "masked_fill_"})
_KEYWORDS: Final = frozenset({"attn_mask", "key_padding_mask", "src_key_padding_mask", "memory_key_padding_mask"})


def mask_lines(code: CodeType) -> Iterator[AssignedLine]:
    """The lines of a function that mask scores, or pass a mask by keyword."""
    found = {
        each.line for each in named_instructions(code) if each.name.lstrip(".") in _FUNCTIONS and not each.is_store
    }
    for start, end, line in code.co_lines():
        if line is not None and any(start <= at < end for at in _offsets_of_keywords(code)):
            found.add(line)
    yield from (AssignedLine(code, line) for line in sorted(found))


def normal_lines(code: CodeType) -> Iterator[AssignedLine]:
    """The lines of a function that mention `torch.normal`."""
    lines = {each.line for each in named_instructions(code) if each.name in ("normal", ".normal") and not each.is_store}
    yield from (AssignedLine(code, line) for line in sorted(lines))


def _offsets_of_keywords(code: CodeType) -> list[int]:
    """The bytecode offsets that load the keyword names of a call, which are a constant, if a mask is among them."""
    places = []
    for each in dis.get_instructions(code):
        value = code.co_consts[each.arg or 0] if each.opname == "KW_NAMES" else each.argval
        if each.opname in ("KW_NAMES", "LOAD_CONST") and isinstance(value, tuple) and not _KEYWORDS.isdisjoint(value):
            places.append(each.offset)
    return places
