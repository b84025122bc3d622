"""Tensors inside tuples, lists, dictionaries and dataclasses, and the path to each."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from proxy_views.snapshots import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

_TENSOR: Final = torch._C.TensorBase


class Part(NamedTuple):
    """One step of a path into a structure: an item or an attribute."""

    key: Any
    is_attribute: bool


def tensors_in(value: Any, path: tuple[Part, ...] = ()) -> Iterator[tuple[tuple[Part, ...], torch.Tensor]]:
    """Each tensor in `value`, preceded by its path; () if `value` itself is a tensor."""
    if isinstance(value, _TENSOR):
        yield path, value  # type: ignore[misc]
        return
    for part, inner in parts_of(value):
        yield from tensors_in(inner, (*path, part))


def parts_of(value: Any) -> Iterator[tuple[Part, Any]]:
    """The direct parts of `value`; none if it is not a structure."""
    if isinstance(value, (tuple, list)):
        for index, inner in enumerate(value):
            yield Part(index, is_attribute=False), inner
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield Part(key, is_attribute=False), inner
    elif isinstance(value, Snapshot):
        for name, inner in value.attributes.items():
            yield Part(name, is_attribute=True), inner
    elif is_dataclass(value):
        for field in dataclasses.fields(value):
            yield Part(field.name, is_attribute=True), getattr(value, field.name, None)


def is_dataclass(value: Any) -> bool:
    """Whether `value` is an instance of a dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
