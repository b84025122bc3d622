"""Finds the lines of a module's code that pass a mask to attention, or draw numbers with `torch.normal`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_wrapper.code_lines.keyword_lines import keyword_lines
from proxy_wrapper.program_code.assigned_lines import AssignedLine, named_instructions

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
    found |= keyword_lines(code, _KEYWORDS)
    yield from (AssignedLine(code, line) for line in sorted(found))


def normal_lines(code: CodeType) -> Iterator[AssignedLine]:
    """The lines of a function that mention `torch.normal`."""
    lines = {each.line for each in named_instructions(code) if each.name in ("normal", ".normal") and not each.is_store}
    yield from (AssignedLine(code, line) for line in sorted(lines))
