"""The memory of the late device: the bytes lie in memory of the host, under addresses that nobody has."""

from __future__ import annotations

import threading
from typing import Any, Final, NamedTuple

import torch

_FIRST_ADDRESS: Final = 0x6000_0000_0000
"""Nothing is mapped there: code that takes such an address for one of the host ends the process, as elsewhere."""

_ALIGNMENT: Final = 512


class Memory:
    """One piece of memory. Work that is queued keeps the bytes, and the storage that has it says when it is free."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.bytes = torch.UntypedStorage(nbytes, device="cpu")


class Lease:
    """What a storage has of the device: free again when the storage goes, as on a device whose work is in order."""

    def __init__(self, memory: Memory, nbytes: int, allocator: Allocator) -> None:
        self.memory = memory
        self._nbytes = nbytes
        self._allocator = allocator

    def __del__(self) -> None:
        self._allocator.allocated -= self._nbytes


class Operand(NamedTuple):
    """A tensor as it was when work on it was queued: a piece of memory, and how the elements lie in it."""

    memory: Memory
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def on_host(self) -> torch.Tensor:
        """A tensor of the host's on the very bytes."""
        return torch.empty(0, dtype=self.dtype).set_(self.memory.bytes, self.offset, self.size, self.stride)


class Allocator:
    """Hands memory out, as long as there is some: `limit` bytes, if that is set. `allocated` are in use."""

    def __init__(self) -> None:
        self.limit: int | None = None
        self.allocated = 0
        self.peak = 0
        self._next = _FIRST_ADDRESS
        self._lock = threading.Lock()

    def allocate(self, nbytes: int, device: torch.device) -> torch.UntypedStorage:
        """A storage on `device`.

        Raises:
            torch.OutOfMemoryError: if less than `nbytes` is left.
        """
        with self._lock:
            if self.limit is not None and self.allocated + nbytes > self.limit:
                raise torch.OutOfMemoryError(f"{device} is out of memory: {nbytes:,} bytes were asked for.")
            self.allocated += nbytes
            self.peak = max(self.peak, self.allocated)
            lease = Lease(Memory(self._next, nbytes), nbytes, self)
            self._next += -(-max(nbytes, 1) // _ALIGNMENT) * _ALIGNMENT
        storage: Any = torch._C._construct_storage_from_data_pointer(lease.memory.address, device, nbytes)
        storage.late_lease = lease  # torch keeps the Python object, and this with it, as long as the storage lives.
        return storage  # type: ignore[no-any-return]

    def operand(self, tensor: torch.Tensor) -> Operand:
        """What `tensor`, which is on the device, is at this moment."""
        storage: Any = tensor.untyped_storage()
        lease = getattr(storage, "late_lease", None)
        return Operand(
            lease.memory if lease is not None else Memory(0, 0),  # torch makes storages of no bytes by itself.
            tensor.dtype,
            tuple(tensor.size()),
            tensor.stride(),
            int(tensor.storage_offset()),
        )
