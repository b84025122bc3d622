"""Describes tensors: "float32[64, 1, 28, 28]", or the name of a parameter or buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn.parameter import Parameter, UninitializedTensorMixin  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_CACHE_LIMIT: Final = 8192
PLAIN: Final = (torch.Tensor, Parameter)
"""The types of tensors that run only torch's own code."""


def describe_plain(value: object) -> str:
    """The description of a value that is not a tensor: a number, boolean or None as it is, else its type.

    Strings are never shown, because they may be secret. No code of the program runs, such as the `__str__` of an
    `IntEnum`.
    """
    if value is None or isinstance(value, bool):
        return str(value)
    for number in (int, float, complex):
        if isinstance(value, number):
            return number.__repr__(value)
    return type(value).__name__


def is_plain(tensor: object) -> bool:
    """Whether `tensor` is not of a subclass, so that reading its attributes runs only torch's own code."""
    return type(tensor) in PLAIN


class Describer:
    """Describes tensors by dtype and shape, and caches the descriptions."""

    def __init__(self) -> None:
        self._descriptions: dict[torch.dtype, dict[torch.Size, str]] = {}

    def describe(self, tensor: torch.Tensor) -> str:
        """The dtype and shape of any tensor, such as "float32[2, 3]", "float32[]" for a scalar.

        A tensor subclass with its own shape and dtype is read without its `__torch_function__`.
        """
        if type(tensor) in PLAIN:
            try:
                return self._descriptions[tensor.dtype][tensor.shape]
            except KeyError:
                return self._remember(tensor)
            except (RuntimeError, TypeError):  # A symbolic size has no hash, a nested tensor no shape.
                return self._spell(tensor)
        with torch._C.DisableTorchFunctionSubclass():
            return self._spell(tensor)

    def _remember(self, tensor: torch.Tensor) -> str:
        words = self._spell(tensor)
        known = self._descriptions.setdefault(tensor.dtype, {})
        if len(known) >= _CACHE_LIMIT:
            known.clear()
        known[tensor.shape] = words
        return words

    @staticmethod
    def _spell(tensor: torch.Tensor) -> str:
        if isinstance(tensor, UninitializedTensorMixin):
            return "uninitialized"
        dtype = str(tensor.dtype).removeprefix("torch.")
        try:
            return f"{dtype}{list(tensor.shape)}"
        except RuntimeError:
            return f"{dtype}[?]"


def find_tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors among `values`, in order, looking into lists, tuples and dicts."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif value is not None:
            visit_tensors(value, found.append)
    return found


def visit_tensors(value: Any, visit: Callable[[torch.Tensor], object], depth: int = 4) -> None:
    """Call `visit` with each tensor in `value`, looking into lists, tuples and dicts down to `depth`.

    Lists, tuples, dicts and their subclasses are iterated by the methods of the built-in types, so that no code of the
    program runs. Dataclasses are read through their `__dict__`. Other objects are skipped.
    """
    if isinstance(value, torch.Tensor):
        visit(value)
    elif depth == 0 or isinstance(value, (str, bytes, int, float)):
        return
    elif isinstance(value, (list, tuple)):
        for item in tuple.__iter__(value) if isinstance(value, tuple) else list.__iter__(value):
            if item is not None:
                visit_tensors(item, visit, depth - 1)
    elif isinstance(value, dict):
        for item in dict.values(value):
            visit_tensors(item, visit, depth - 1)
    elif hasattr(type(value), "__dataclass_fields__"):
        for item in getattr(value, "__dict__", {}).values():
            visit_tensors(item, visit, depth - 1)
