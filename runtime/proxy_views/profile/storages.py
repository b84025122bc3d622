"""Identifies the data of tensors by addresses that stay unique while a run is profiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn

_TENSOR = torch._C.TensorBase
_free = torch.UntypedStorage._free_weak_ref


class Data(NamedTuple):
    """Where the values of a tensor are stored, and their size.

    Attributes:
        storage: the number of its storage.
        offset: the offset of the first value, in bytes.
        size: the size in bytes.
    """

    storage: int
    offset: int
    size: int

    @property
    def address(self) -> tuple[int, int]:
        """The key by which data is counted once."""
        return self.storage, self.offset


class Storages:
    """Distinguishes storages, including those of dead tensors.

    Addresses are reused, and fake tensors have none. So each storage is identified by the address of its record in
    torch. A weak reference to the record keeps that address taken, but keeps no values alive.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()

    def of(self, tensor: Any) -> tuple[Data, ...]:
        """Where the values of `tensor` are stored: in one place, or in those of the tensors it consists of."""
        try:
            storage = tensor.untyped_storage()
            number = storage._cdata
            if number not in self._known:
                storage._weak_ref()
                self._known.add(number)
            offset = tensor.storage_offset()
            return (Data(number, offset * tensor.itemsize if offset else 0, tensor.nbytes),)
        except (NotImplementedError, RuntimeError):  # It has no storage.
            return tuple(data for part in _parts_of(tensor) for data in self.of(part))

    def of_all(self, values: Iterable[Any]) -> tuple[Data, ...]:
        """Where the values of the tensors among `values` are stored, including those in lists and tuples."""
        found: tuple[Data, ...] = ()
        for value in values:
            if isinstance(value, _TENSOR):
                found += self.of(value)
            elif type(value) in (list, tuple) and value and isinstance(value[0], (_TENSOR, type(None))):
                found += self.of_all(value)
        return found

    def of_state(self, module: nn.Module) -> set[int]:
        """The storages of a module's parameters and buffers."""
        state = (*module.parameters(), *module.buffers())
        return {data.storage for data in self.of_all(state)}

    def release(self) -> None:
        """Release all; their numbers may be reused from now on."""
        while self._known:
            _free(self._known.pop())  # type: ignore[no-untyped-call]


def _parts_of(tensor: Any) -> list[Any]:
    """The tensors of which a sparse tensor or a tensor subclass consists; none if it does not say."""
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    if hasattr(tensor, "__tensor_flatten__"):
        return [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
    return []
