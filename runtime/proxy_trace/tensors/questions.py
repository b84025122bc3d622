"""Calls that only query the layout of a tensor, not its values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from proxy_wrapper.events import CallFunction, ReadValue

_QUESTIONS: Final = frozenset(
    {"dim", "ndimension", "size", "stride", "numel", "nelement", "element_size", "storage_offset", "__len__", "type"}
    | {"is_floating_point", "is_complex", "is_signed", "is_contiguous", "is_inference", "is_same_size", "get_device"}
    | {"has_names", "untyped_storage", "data_ptr", "_has_compatible_shallow_copy_type"}
)


def asks_only(event: CallFunction | ReadValue) -> bool:
    """Whether a call is such a query, which does not use the values of a tensor."""
    return not getattr(event, "outputs", ()) and event.target.rpartition(".")[2] in _QUESTIONS
