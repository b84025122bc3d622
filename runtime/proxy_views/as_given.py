"""Copies the lists, dictionaries and objects among a call's arguments, because the program may change them later."""

from __future__ import annotations

import copy
import operator
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_views.snapshots import COLLECTIONS, Fill, snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN: Final = frozenset({int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.layout})
"""Immutable types whose values hold no tensor."""

_ATOMS: Final = frozenset({*_PLAIN, torch.Tensor, torch.nn.Parameter, torch.Size})
"""Types of arguments that need no copy, because nothing inside them changes."""

_TENSOR: Final = torch._C.TensorBase  # The base of `torch.Tensor`, which has most of its methods.


def arguments_as_given(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """`as_given` of each argument, with a fast path for the common case that nothing needs a copy."""
    for each in args:
        if type(each) not in _ATOMS:
            return tuple(map(as_given, args))
    return args


def keywords_as_given(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same for keyword arguments. `kwargs` itself belongs to the call, and needs no copy."""
    for each in kwargs.values():
        if type(each) not in _ATOMS:
            return {key: as_given(each) for key, each in kwargs.items()}
    return kwargs


def as_given(value: Any) -> Any:
    """`value`, with copies of the lists, dictionaries and objects in it. Tensors are not copied."""
    kind = type(value)
    if kind in _PLAIN or isinstance(value, _TENSOR):
        return value
    if kind is tuple:
        copies = tuple(map(as_given, value))
        return value if all(map(operator.is_, copies, value)) else copies
    if kind is list:
        return [as_given(each) for each in value]
    if isinstance(value, dict):
        copied = {key: as_given(each) for key, each in value.items()}
        return copied if kind is dict else _like(value, copied)
    return copy.copy(value) if kind in COLLECTIONS else snapshot(value, as_given)


def _like(value: dict[Any, Any], copied: dict[Any, Any]) -> Any:
    """`copied` as a dictionary of the type of `value`; `value` itself if that type cannot be built from its items."""
    try:
        return type(value)(**copied) if hasattr(value, "__dataclass_fields__") else Fill(value)(copied)
    except Exception:  # noqa: BLE001  The program's class may raise anything.
        return value
