"""Replaces tensors in the results of modules and functions."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


def with_tensors(value: Any, name: str, change: Callable[[torch.Tensor, str], torch.Tensor]) -> Any:
    """`value` with each tensor in it replaced by the result of `change`; `value` itself if nothing changed.

    If `value` is a tensor, its dtype does not matter. In tuples, lists, dictionaries and dataclasses, only
    floating-point and complex tensors are replaced, because others are indices and masks.

    Args:
        value: of any type.
        name: passed to `change`, with "[1]", "['key']" or ".field" appended for a part.
        change: takes a tensor and its name, and returns a tensor.
    """
    if isinstance(value, torch.Tensor):
        return change(value, name)
    return _structure(value, name, change)


def _structure(value: Any, name: str, change: Callable[[torch.Tensor, str], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value, name) if value.is_floating_point() or value.is_complex() else value
    if isinstance(value, (tuple, list)):
        inner = [_structure(each, f"{name}[{index}]", change) for index, each in enumerate(value)]
        if all(one is other for one, other in zip(inner, value, strict=True)):
            return value
        return _sequence_like(value, inner)
    if isinstance(value, dict):
        changed = {key: _structure(each, f"{name}[{key!r}]", change) for key, each in value.items()}
        changed = {key: each for key, each in changed.items() if each is not value[key]}
        return _with(value, changed, lambda again, key, each: again.__setitem__(key, each))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
        changed = {key: _structure(each, f"{name}.{key}", change) for key, each in held.items()}
        changed = {key: each for key, each in changed.items() if each is not held[key]}
        return _with(value, changed, object.__setattr__)
    return value


def _sequence_like(value: Any, inner: list[Any]) -> Any:
    kind = type(value)
    if kind in (tuple, list):
        return kind(inner)
    if isinstance(value, list):
        again = copy.copy(value)
        again[:] = inner
        return again
    return kind(*inner) if hasattr(value, "_fields") else kind(inner)


def _with(value: Any, changed: dict[Any, Any], put: Callable[[Any, Any, Any], None]) -> Any:
    """A copy of `value`, updated with `changed`. `value` itself may be in use elsewhere in the program."""
    if not changed:
        return value
    again = copy.copy(value)
    for key, each in changed.items():
        put(again, key, each)
    return again
