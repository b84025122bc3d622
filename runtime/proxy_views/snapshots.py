"""Snapshots of objects of arbitrary classes that hold tensors, and how to rebuild them.

A model may take or return such an object: a cache, a distribution, a record of its results. It may change later, so a
recording keeps its content. A graph builds another object of the same class, without calling the program's code.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import types
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_RECORDS: Final = (
    *(type, nn.Module, torch.Generator, BaseException, types.ModuleType, types.FunctionType, types.MethodType),
    *(int, float, complex, str, bytes, tuple, list, dict, set, frozenset),
)
_PLAIN: Final = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device})
_CLASSES_KNOWN: Final = 256
_MOST_OBJECTS: Final = 1000
"""An object from which more are reachable is not treated as a record of tensors."""


COLLECTIONS: Final = (collections.deque, set, frozenset)
"""Types that do not hold their values in attributes."""


class Snapshot:
    """The content of an object that holds tensors, at the time of a call.

    Attributes:
        type: its class.
        attributes: the values of its attributes, by name.
    """

    __slots__ = ("attributes", "type")

    def __init__(self, kind: type, attributes: dict[str, Any]) -> None:
        self.type, self.attributes = kind, attributes


def snapshot(value: Any, as_given: Callable[[Any], Any]) -> Any:
    """A snapshot of `value`, if it is an object that holds tensors and no reference to itself; else `value`.

    Args:
        value: neither a tensor nor a tuple, list or dictionary.
        as_given: returns what to keep of each value in it.
    """
    kind: type = type(value)
    if not _is_record(kind):
        return value
    try:
        if not _holds_tensors(value, [], set()):
            return value
    except _HoldsItselfError:
        return value
    return Snapshot(kind, {name: as_given(each) for name, each in attributes_of(value).items()})


@lru_cache(maxsize=_CLASSES_KNOWN)
def _is_record(kind: Any) -> bool:
    """Whether an instance consists of nothing but its attributes, judging by its class."""
    if kind is types.SimpleNamespace:
        return True
    if issubclass(kind, _NO_RECORDS) or kind.__module__ == "builtins":
        return False
    if kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__:
        return False
    return getattr(kind, "__getstate__", None) is getattr(object, "__getstate__", None)


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an object by name. No code of its class runs."""
    try:
        held: dict[str, Any] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        held = {}
    kind: type = type(value)
    slots = _slots_of(kind)
    return {**_in_slots(value, slots), **held} if slots else held


@lru_cache(maxsize=_CLASSES_KNOWN)
def _slots_of(kind: Any) -> tuple[tuple[str, types.MemberDescriptorType], ...]:
    """The descriptors of `__slots__`, with their names."""
    found = [each for one in kind.__mro__ for each in one.__dict__.items()]
    return tuple(
        (name, each) for name, each in found if isinstance(each, types.MemberDescriptorType) and name != "__dict__"
    )


def _in_slots(value: Any, slots: tuple[tuple[str, types.MemberDescriptorType], ...]) -> dict[str, Any]:
    found = {}
    for name, descriptor in slots:
        with contextlib.suppress(AttributeError):  # The slot is empty.
            found[name] = descriptor.__get__(value)
    return found


class _HoldsItselfError(Exception):
    """An object refers to itself, or too many are reachable from it."""


def _holds_tensors(value: Any, around: list[Any], seen: set[int]) -> bool:
    """Whether `value`, which is not a tensor, contains one."""
    kind: type = type(value)
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, (tuple, list)):
        parts = list(value)
    elif _is_record(kind):
        parts = list(attributes_of(value).values())
    else:
        return False
    if any(each is value for each in around) or len(seen) > _MOST_OBJECTS:
        raise _HoldsItselfError
    seen.add(id(value))
    found = False
    for each in parts:  # Visit all of them: any may form a cycle.
        is_tensor = isinstance(each, torch._C.TensorBase)
        if is_tensor or (type(each) not in _PLAIN and _holds_tensors(each, [*around, value], seen)):
            found = True
    return found


class Rebuild:
    """The target of a node that builds an object of a class from its attributes, or a tuple from its items."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.__name__ = self.__qualname__ = kind.__name__
        self.__module__ = __name__

    def __call__(self, attributes: Any) -> Any:
        """Build the object."""
        if issubclass(self.kind, tuple):
            return tuple.__new__(self.kind, attributes)
        if self.kind is types.SimpleNamespace:
            return types.SimpleNamespace(**attributes)
        made = object.__new__(self.kind)
        for name, value in attributes.items():
            object.__setattr__(made, name, value)
        return made

    def __deepcopy__(self, memo: Any) -> Rebuild:
        return self


class Fill:
    """The target of a node that builds an instance of a `dict` subclass from its items."""

    def __init__(self, like: dict[Any, Any]) -> None:
        """Take everything but the items from `like`."""
        self.like = copy.copy(like)
        self.like.clear()
        self.__name__ = self.__qualname__ = type(like).__name__
        self.__module__ = __name__

    def __call__(self, items: dict[Any, Any]) -> Any:
        """Build the dictionary."""
        made = copy.copy(self.like)
        made.update(items)
        return made

    def __deepcopy__(self, memo: Any) -> Fill:
        return self
