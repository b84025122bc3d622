"""Tensors in words: "float32[64, 1, 28, 28]", or the name of a parameter or buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn.parameter import Parameter, UninitializedTensorMixin  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_CACHE_LIMIT: Final = 8192
PLAIN: Final = (torch.Tensor, Parameter)
"""The types of tensor that run no code but torch's own."""


def say_plainly(value: object) -> str:
    """What a trace says of a value that is no tensor: a number, a truth value or None itself, else its type.

    Nothing that somebody may have written: a text may be secret. No code of the program runs, such as the `__str__` of
    an enumeration of numbers.
    """
    if value is None or isinstance(value, bool):
        return str(value)
    for number in (int, float, complex):
        if isinstance(value, number):
            return number.__repr__(value)
    return type(value).__name__


def is_plain(tensor: object) -> bool:
    """Whether reading attributes of `tensor` runs no code but torch's own: its type is no subclass."""
    return type(tensor) in PLAIN


class Describer:
    """Describes tensors by dtype and shape, and remembers the words."""

    def __init__(self) -> None:
        self._words: dict[torch.dtype, dict[torch.Size, str]] = {}

    def describe(self, tensor: torch.Tensor) -> str:
        """The dtype and shape of any tensor, such as "float32[2, 3]", "float32[]" for a scalar.

        A subclass of tensor that has shape and dtype of its own making is asked below its `__torch_function__`.
        """
        if type(tensor) in PLAIN:
            try:
                return self._words[tensor.dtype][tensor.shape]
            except KeyError:
                return self._remember(tensor)
            except (RuntimeError, TypeError):  # A symbolic size has no hash, a nested tensor no shape.
                return self._spell(tensor)
        with torch._C.DisableTorchFunctionSubclass():
            return self._spell(tensor)

    def _remember(self, tensor: torch.Tensor) -> str:
        words = self._spell(tensor)
        known = self._words.setdefault(tensor.dtype, {})
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

    Only the built-in containers and their subclasses that iterate as they do are opened, so that no code of the
    program runs; what a data class or another object holds is reached through its `__dict__` one level down.
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
