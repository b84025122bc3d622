"""Minimum, maximum, norm, non-finite count and fingerprint of tensors in one pass, by a compiled function of our own.

`native/one_pass.c` is compiled when the package is built, where there is a compiler (`scripts/compile_one_pass.py`).
Where there was none, or the library is not that of the source beside it, `load` gives None, and `extents.py` does the
same with torch's functions: minimum, maximum, non-finite count and fingerprint are equal to the bit, the norm is equal
but for its last digits.

The library knows nothing of Python: it is given addresses, and no mode, hook or autograd node can see it. Large tensors
are read without the interpreter's lock, and by as many threads as torch uses. Small ones are read with it: whoever lets
go of it may wait for milliseconds until another thread gives it back.
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
"""The dtypes that can be read, by their numbers in the library."""

_RAW: Final = len(KINDS)
"""Bytes of whatever meaning, of which there is but a fingerprint."""

_ITEM: Final = Struct("=qqq")
_SUMMARY: Final = Struct("=dddqQ")
"""The structures `tensor` and `summary` of the library."""

_OneSummary: Final = ctypes.c_byte * _SUMMARY.size

_SMALL: Final = 1 << 15
"""So many elements are read with the interpreter's lock: they take some 20 us."""


Item: TypeAlias = bytes
"""What the library is told of a tensor: its address, how many elements it has, and the number of its dtype.

Packed, as a step has one for each parameter: so many tuples would bring on the garbage collector."""

Extent: TypeAlias = tuple[float, float, float, int, int]
"""Minimum, maximum, norm, non-finite count and fingerprint of a tensor; a NaN anywhere makes the first three NaN.

A plain tuple, which `struct` makes, and which lives no longer than it takes to read it: the garbage collector goes over
everything the sooner, the more tuples are kept."""


class OnePass:
    """The library. All tensors must be contiguous ones on the CPU, without a negative bit, with elements and memory.

    They are read where they lie: somebody has to hold them meanwhile.
    """

    def __init__(self, path: Path) -> None:
        """Load the library.

        Raises:
            OSError: if there is none, or it cannot be loaded.
            AttributeError: if it is another one.
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
        """The extent of a tensor: as `extents` gives it, in half the time for a small one."""
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
        """How many elements are NaN or infinite; a tensor without any may be asked for, too."""
        count = numel(tensor)
        function = self._count_small if count <= _SMALL else self._count_large
        return function(data_ptr(tensor), count, KINDS[tensor.dtype])


packed: Final[Callable[[int, int, int], Item]] = _ITEM.pack
"""What the library is told of a tensor with this address, number of elements and number of its dtype."""


def item_of(tensor: torch.Tensor) -> Item:
    """What the library is told of a tensor, whose dtype must be among `KINDS`."""
    return packed(data_ptr(tensor), numel(tensor), KINDS[tensor.dtype])


def load(folder: Path = _FOLDER) -> OnePass | None:
    """The library in `folder`, if it was compiled from the source that lies there."""
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
