"""Minimum, maximum, norm, non-finite count and fingerprint of tensors in one pass, by our compiled function.

`native/one_pass.c` is compiled when the package is built, if there is a compiler (`scripts/compile_one_pass.py`). If
there was none, or the library does not match the source beside it, `load` returns None, and `extents.py` uses torch's
functions instead: minimum, maximum, non-finite count and fingerprint are equal to the bit; the norm may differ in its
last digits.

The library does not depend on Python: it is given addresses, and no mode, hook or autograd node can see it. Large
tensors are read without the interpreter's lock, on as many threads as torch uses. Small ones are read with the lock,
because releasing it can mean waiting milliseconds for another thread.
"""

from __future__ import annotations

import ctypes
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch

from proxy_wrapper.values.torch_functions import data_ptr, get_num_threads, numel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_FOLDER: Final = Path(__file__).with_name("native")

KINDS: Final = {
    dtype: kind
    for kind, dtype in enumerate(
        (
            *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
            *(torch.int8, torch.int16, torch.int32, torch.int64),
            *(torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool),
        )
    )
}
"""The readable dtypes, with their numbers in the library."""

_RAW: Final = len(KINDS)
"""The number of raw bytes, which only have a fingerprint."""

_ITEM: Final = Struct("=qqq")
_SUMMARY: Final = Struct("=dddqQ")
"""The structs `tensor` and `summary` of the library."""

_OneSummary: Final = ctypes.c_byte * _SUMMARY.size

_SMALL: Final = 1 << 15
"""Up to this many elements are read with the interpreter's lock, in about 20 us."""


Item: TypeAlias = bytes
"""A packed `tensor` struct: address, number of elements, number of the dtype.

It is packed because a step has one per parameter, and that many tuples would trigger the garbage collector."""

Extent: TypeAlias = tuple[float, float, float, int, int]
"""Minimum, maximum, norm, non-finite count and fingerprint of a tensor; a NaN anywhere makes the first three NaN.

A plain, short-lived tuple from `struct`: the more tuples are kept, the sooner the garbage collector runs."""


class OnePass:
    """The library. All tensors must be contiguous, on the CPU, without a negative bit, and not empty.

    They are read in place, so the caller must keep them alive.
    """

    def __init__(self, path: Path) -> None:
        """Load the library.

        Raises:
            OSError: if it is missing or cannot be loaded.
            AttributeError: if it is another library.
        """
        self.source = _source(ctypes.CDLL(str(path)))
        self._read_small, self._count_small = _functions(ctypes.PyDLL(str(path)))
        self._read_large, self._count_large = _functions(ctypes.CDLL(str(path)))

    def extents(self, items: Sequence[Item]) -> Iterable[Extent]:
        """The extent of each tensor, in order."""
        found = (ctypes.c_byte * (_SUMMARY.size * len(items)))()
        given = b"".join(items)
        if sum(count for _, count, _ in _ITEM.iter_unpack(given)) <= _SMALL:
            self._read_small(given, len(items), found, 1)
        else:
            self._read_large(given, len(items), found, get_num_threads())
        return _SUMMARY.iter_unpack(found)

    def extent(self, item: Item) -> Extent:
        """The extent of one tensor, like `extents`, but twice as fast for a small one."""
        found = _OneSummary()
        _, count, _ = _ITEM.unpack(item)
        if count <= _SMALL:
            self._read_small(item, 1, found, 1)
        else:
            self._read_large(item, 1, found, get_num_threads())
        extent: Any = _SUMMARY.unpack_from(found)
        return extent  # type: ignore[no-any-return]

    def fingerprint(self, tensor: torch.Tensor) -> int:
        """The fingerprint of a tensor of any dtype."""
        return self.extent(_ITEM.pack(data_ptr(tensor), numel(tensor) * tensor.dtype.itemsize, _RAW))[-1]

    def count_nonfinite(self, tensor: torch.Tensor) -> int:
        """The number of NaN and infinite elements; the tensor may be empty."""
        count = numel(tensor)
        function = self._count_small if count <= _SMALL else self._count_large
        return function(data_ptr(tensor), count, KINDS[tensor.dtype])


packed: Final[Callable[[int, int, int], Item]] = _ITEM.pack
"""The `Item` of a tensor with this address, number of elements and dtype number."""


def item_of(tensor: torch.Tensor) -> Item:
    """The `Item` of a tensor, whose dtype must be in `KINDS`."""
    return packed(data_ptr(tensor), numel(tensor), KINDS[tensor.dtype])


def load(folder: Path = _FOLDER) -> OnePass | None:
    """The library in `folder`, if it was compiled from the source there, else None."""
    try:
        found = OnePass(folder / "one_pass.so")
        source = sha256((folder / "one_pass.c").read_bytes()).hexdigest()
    except (OSError, AttributeError):
        return None
    return found if found.source == source else None


def _source(library: ctypes.CDLL) -> str:
    library.one_pass_source.restype = ctypes.c_char_p
    return str(library.one_pass_source().decode())


def _functions(library: ctypes.CDLL | ctypes.PyDLL) -> tuple[Callable[..., None], Callable[..., int]]:
    summarize, count_nonfinite = library.one_pass_summarize, library.one_pass_count_nonfinite
    summarize.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64]
    summarize.restype = None
    count_nonfinite.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    count_nonfinite.restype = ctypes.c_int64
    return summarize, count_nonfinite
