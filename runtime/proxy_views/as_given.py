"""Copies of the lists, dictionaries and objects that a call is given: the program may change its own later."""

from __future__ import annotations

import copy
import operator
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_views.snapshots import COLLECTIONS, Fill, snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN: Final = frozenset({int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.layout})
"""Types whose values hold no tensor and do not change."""

_ATOMS: Final = frozenset({*_PLAIN, torch.Tensor, torch.nn.Parameter, torch.Size})
"""Types of arguments that need not be looked into: nothing in them changes."""

_TENSOR: Final = torch._C.TensorBase  # The base of `torch.Tensor`, which has most of its methods.


def arguments_as_given(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What `as_given` gives for arguments, most of which have nothing to be copied."""
    for each in args:
        if type(each) not in _ATOMS:
            return tuple(map(as_given, args))
    return args


def keywords_as_given(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same for arguments by keyword; the dictionary is the call's own."""
    for each in kwargs.values():
        if type(each) not in _ATOMS:
            return {key: as_given(each) for key, each in kwargs.items()}
    return kwargs


def as_given(value: Any) -> Any:
    """`value` itself, with the lists, dictionaries and objects in it copied: the program may change its own."""
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
    """`copied` as a dictionary of the type of `value`, where such can be made of its items alone."""
    try:
        return type(value)(**copied) if hasattr(value, "__dataclass_fields__") else Fill(value)(copied)
    except Exception:  # noqa: BLE001  Whatever the program's class does with it.
        return value
