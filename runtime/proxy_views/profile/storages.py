"""Which data a tensor has: an address that nothing else has, or will have, while a run is profiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn

_TENSOR = torch._C.TensorBase
_free = torch.UntypedStorage._free_weak_ref


class Data(NamedTuple):
    """Where the values of a tensor lie, and how many bytes it has.

    Attributes:
        storage: the memory that it is a part of, as a number.
        offset: of the first value, in bytes.
        size: in bytes.
    """

    storage: int
    offset: int
    size: int

    @property
    def address(self) -> tuple[int, int]:
        """What data is counted once by."""
        return self.storage, self.offset


class Storages:
    """Tells the memory of tensors apart, that of dead ones from that of living ones included.

    Addresses are used again, and fake tensors have none. So each storage that is met is told by that of its record in
    torch, to which a weak reference is held: it keeps no values alive, but the address taken.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()

    def of(self, tensor: Any) -> tuple[Data, ...]:
        """Where the values of `tensor` lie: in one place, or if it is made of several tensors, in theirs."""
        try:
            storage = tensor.untyped_storage()
            number = storage._cdata
            if number not in self._known:
                storage._weak_ref()
                self._known.add(number)
            offset = tensor.storage_offset()
            return (Data(number, offset * tensor.itemsize if offset else 0, tensor.nbytes),)
        except (NotImplementedError, RuntimeError):  # It has no storage of its own.
            return tuple(data for part in _parts_of(tensor) for data in self.of(part))

    def of_all(self, values: Iterable[Any]) -> tuple[Data, ...]:
        """Where the values of those that are tensors lie, of lists and tuples of tensors as well."""
        found: tuple[Data, ...] = ()
        for value in values:
            if isinstance(value, _TENSOR):
                found += self.of(value)
            elif type(value) in (list, tuple) and value and isinstance(value[0], (_TENSOR, type(None))):
                found += self.of_all(value)
        return found

    def of_state(self, module: nn.Module) -> set[int]:
        """The storages of its parameters and buffers."""
        state = (*module.parameters(), *module.buffers())
        return {data.storage for data in self.of_all(state)}

    def release(self) -> None:
        """Let go of all: what they are told by may be something else's from now on."""
        while self._known:
            _free(self._known.pop())  # type: ignore[no-untyped-call]


def _parts_of(tensor: Any) -> list[Any]:
    """The tensors that a sparse one, or one of a class of the program's, is made of; none if it does not say."""
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    if hasattr(tensor, "__tensor_flatten__"):
        return [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
    return []
