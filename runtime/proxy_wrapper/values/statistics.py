"""Minimum, maximum, norm, non-finite count and fingerprint of tensors.

Nothing here draws a random number, creates an autograd node, writes to a tensor that the program can see, or waits for
an accelerator on the calling thread. On the CPU, the numbers are read at once. Elsewhere they stay on the device until
the thread that writes the trace asks for them.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _disable_current_modes

from proxy_wrapper.events import Statistics, as_number
from proxy_wrapper.values import extents
from proxy_wrapper.values.describe import PLAIN, is_plain
from proxy_wrapper.values.distributed_tensors import local_part
from proxy_wrapper.values.fingerprint import as_text, real_numbers, size_in_bytes, weighted_sums
from proxy_wrapper.values.one_pass import KINDS, packed
from proxy_wrapper.values.pending import HostCopy, PendingCount, PendingStatistics, PendingValue, Table
from proxy_wrapper.values.torch_functions import (
    aminmax,
    concatenate,
    contiguous,
    convert,
    data_ptr,
    dimensions,
    foreach_norm,
    has_any,
    is_contiguous,
    is_neg,
    isfinite,
    item,
    numel,
    split,
    stack,
    storage_offset,
    total,
    view,
    view_as_complex,
    zeros,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from proxy_wrapper.events import Number
    from proxy_wrapper.values.one_pass import Item

MOST_DIMENSIONS: Final = 64
"""The largest number of dimensions that torch reduces. Reading a tensor with more raises an error."""

_SINGLE_AND_DOUBLE: Final = (torch.float32, torch.float64)
_count_dispatch_modes: Final = torch._C._len_torch_dispatch_stack
_transform: Final = torch._C._functorch.maybe_current_level
_tracing_state: Final = torch._C._get_tracing_state
_is_grad_enabled: Final = torch.is_grad_enabled
_set_grad_enabled: Final = torch._C._set_grad_enabled
_is_forward_grad_enabled: Final = torch._C._is_fwd_grad_enabled
_set_forward_grad_enabled: Final = torch._C._set_fwd_grad_enabled
_DisableTorchFunction: Final = torch._C.DisableTorchFunction

PendingOr: TypeAlias = Statistics | PendingStatistics | None
Parts: TypeAlias = "tuple[torch.Tensor, ...]"

_HIGH_ADDRESS: Final = 1 << 40
"""From here on an address is no mere offset into a storage without memory, which would be a terabyte."""

_EMPTY: Final = Statistics(None, None, 0.0, bits=as_text(0))
"""The statistics of a tensor without elements."""


class Readable(NamedTuple):
    """The readable content of a tensor.

    `values` is strided and, on the CPU, of a real dtype that torch reduces. `parts` are the strided tensors that store
    the tensor unchanged, values last. For a sparse tensor they include the indices.
    """

    values: torch.Tensor
    parts: Parts


class unobserved:  # noqa: N801  A context manager is called like a function.
    """Run torch code unseen by autograd, function modes and dispatch modes.

    `with unobserved() as readable` tells whether values of tensors may be read at all (see `are_values_readable`). It
    is not composed of other context managers, because every step and every module call enters one.
    """

    __slots__ = ("_functions", "_had_forward_gradients", "_had_gradients", "_modes")

    def __enter__(self) -> bool:
        self._modes: AbstractContextManager[Any] | None = None
        self._had_gradients = _is_grad_enabled()
        self._had_forward_gradients = _is_forward_grad_enabled()
        self._functions = _DisableTorchFunction()
        try:  # A `KeyboardInterrupt` may come after any call, and finds no `with` to leave yet.
            self._functions.__enter__()
            _set_grad_enabled(False)
            _set_forward_grad_enabled(False)  # Otherwise results for dual numbers are dual too.
            if _count_dispatch_modes():
                self._modes = _disable_current_modes()
                self._modes.__enter__()
            return are_values_readable()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exception: object) -> None:
        try:
            if self._modes is not None:
                self._modes.__exit__(None, None, None)
        finally:
            try:
                _set_forward_grad_enabled(self._had_forward_gradients)
            finally:
                try:
                    _set_grad_enabled(self._had_gradients)
                finally:
                    self._functions.__exit__(None, None, None)


def are_values_readable() -> bool:
    """Whether a tensor's value can currently be read without affecting the program."""
    if _tracing_state() is not None or _transform() is not None:
        return False
    return not (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def has_values(tensor: torch.Tensor) -> bool:
    """Whether `tensor` is an ordinary tensor with readable numbers: not of a subclass, meta, quantized or nested.

    False for a tensor with more dimensions than torch reduces.
    """
    return (
        is_plain(tensor)
        and _has_numbers(tensor.dtype)
        and tensor.layout is torch.strided
        and not (tensor.is_meta or tensor.is_quantized or tensor.is_nested)
        and dimensions(tensor) <= MOST_DIMENSIONS
        and _is_allocated(tensor)
    )


is_hosted: Final[Callable[[torch.Tensor], bool]] = attrgetter("is_cpu")
"""Whether a tensor can be read without waiting for a device. Not a Python function, to save a call."""


def summarize(tensors: Sequence[torch.Tensor | None]) -> list[PendingOr]:
    """Statistics of each tensor, in order.

    Call it inside `unobserved`.

    Args:
        tensors: of any shapes, dtypes and devices. None and tensors without readable values give None.

    Returns:
        For tensors on the CPU, `Statistics`; for others `PendingStatistics`, each device's in one copy.
    """
    results: list[PendingOr] = [None] * len(tensors)
    places: list[int] = []
    items: list[Item] = []
    others: list[int] = []
    for index, tensor in enumerate(tensors):
        if tensor is None:
            continue
        item = _item_of(tensor)
        if item is None:
            others.append(index)
        else:
            places.append(index)
            items.append(item)
    if items and extents.library is not None:
        for index, extent in zip(places, extents.library.extents(items), strict=True):
            results[index] = _statistics(*extent)
    if others:
        _summarize_others(others, tensors, results)
    return results


def quickly_summarized(tensor: torch.Tensor) -> Statistics | None:
    """Statistics of a tensor that the library can read, which is most tensors; else None. May be called anywhere.

    No torch function computes here, so there is little to hide from the program.
    """
    if extents.library is None or not are_values_readable():
        return None
    with _DisableTorchFunction():
        item = _item_of(tensor)
    return None if item is None else _statistics(*extents.library.extent(item))


def bits_of(tensors: Sequence[torch.Tensor]) -> list[str | None]:
    """The fingerprint of each tensor, as in `summarize`.

    None for a tensor on an accelerator, or without readable values. Call it inside `unobserved`.
    """
    results: list[str | None] = [None] * len(tensors)
    for index, tensor in enumerate(tensors):
        parts = _parts_of(tensor)
        if parts is not None and is_hosted(parts[-1]):
            results[index] = as_text(extents.fingerprint_of(parts)) if numel(parts[-1]) else _EMPTY.bits
    return results


def count_nonfinite(tensor: torch.Tensor) -> int | PendingCount:
    """The number of NaN and infinite elements of `tensor`. Call it inside `unobserved`."""
    if is_hosted(tensor):
        return extents.count_nonfinite(_countable(tensor))
    return PendingCount(HostCopy(lambda: _table_of_count(tensor)))


def holds_nan(tensor: torch.Tensor) -> bool:
    """Whether a tensor has a NaN element; False if its values are not available."""
    with unobserved() as readable:
        if not readable or not has_values(tensor):
            return False
        known = summarize([tensor])[0]
    return type(known) is Statistics and known.minimum == "nan"


def is_nonzero(tensor: torch.Tensor) -> bool | PendingCount:
    """Whether `tensor` has a non-zero element. On an accelerator, a count that is 0 if there is none."""
    if is_hosted(tensor):
        return bool(item(has_any(tensor)))
    return PendingCount(HostCopy(lambda: Table(None, convert(view(has_any(tensor), (1, 1)), torch.int64))))


def read_value(tensor: torch.Tensor) -> Number | PendingValue:
    """The value of `tensor`, which has one real element. Does not wait for an accelerator."""
    if is_hosted(tensor):
        return as_number(float(item(tensor)))
    return PendingValue(HostCopy(lambda: _table_of_value(tensor)))


def is_certainly_finite(tensor: torch.Tensor) -> bool:
    """Whether `tensor` is an ordinary CPU tensor with finite elements: a fast path for most outputs.

    It may be False although all elements are finite, if their sum is not.

    May be called anywhere. Cheaper than `unobserved`: it checks for the same conditions, and is False without them.
    """
    if not (
        type(tensor) is torch.Tensor
        and is_hosted(tensor)
        and tensor.dtype in _SINGLE_AND_DOUBLE
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and dimensions(tensor) <= MOST_DIMENSIONS
        and _is_allocated(tensor)
        and forward_ad._current_level < 0
        and not _count_dispatch_modes()
        and _transform() is None
        and _tracing_state() is None
    ):
        return False
    if extents.is_quickly_counted(tensor):
        return not extents.count_nonfinite(tensor)
    if not (tensor.requires_grad and _is_grad_enabled()):
        found: complex = item(total(tensor))
    else:
        try:  # Nothing before it: a `KeyboardInterrupt` may come after any call.
            _set_grad_enabled(False)
            found = item(total(tensor))
        finally:
            _set_grad_enabled(True)
    return found - found == 0


_NARROW: Final = (torch.float16, torch.bfloat16)
_REDUCED: Final = (torch.float32, torch.float64, *_NARROW)

_PIECE: Final = 1 << 24
"""The most elements that an accelerator checks at once if it needs memory for each: 64 MB of `float32`."""


def _countable(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with as many non-finite elements, of a dtype that torch can sum.

    Torch cannot sum float8 dtypes or complex numbers of half precision.
    """
    if tensor.dtype.itemsize == 1:
        return convert(tensor, torch.float32)
    if tensor.dtype is torch.complex32:
        return view_as_complex(convert(real_numbers(tensor), torch.float32))
    return tensor


def _table_of_count(tensor: torch.Tensor) -> Table:
    return Table(None, view(_nonfinite(_countable(tensor)), (1, 1)))


def _table_of_value(tensor: torch.Tensor) -> Table:
    value = view(convert(contiguous(tensor), _widest_floating(tensor.device)), (1, 1))
    return Table(value, zeros((1, 0), dtype=torch.int64, device=tensor.device))


def _parts_of(tensor: torch.Tensor) -> Parts | None:
    """The strided tensors that store `tensor`, values last; None if it has no readable values."""
    part = local_part(tensor)
    if part is None or part.is_quantized or part.is_meta or not _has_numbers(part.dtype):
        return None
    if part.layout is torch.sparse_coo:
        if not (is_hosted(part) or part.is_coalesced()):
            return None  # Only the device knows how many elements remain.
        part = part.coalesce()
        return part.indices(), part.values()
    if part.layout is not torch.strided or part.is_nested or dimensions(part) > MOST_DIMENSIONS:
        return None
    return (part,) if _is_allocated(part) else None


@cache
def _has_numbers(dtype: torch.dtype) -> bool:
    """Whether torch computes with elements of `dtype`; it only stores those of `int4` or `float4_e2m1fn_x2`."""
    if dtype in KINDS or dtype.is_complex:
        return True
    if not dtype.is_floating_point:
        return False
    try:
        convert(view(zeros((dtype.itemsize,), dtype=torch.uint8, device="cpu"), dtype), torch.float32)
    except (NotImplementedError, RuntimeError):
        return False
    return True


def _is_allocated(tensor: torch.Tensor) -> bool:
    """Whether a strided tensor has memory. Sharded training frees the memory of tensors until their next use."""
    return not is_hosted(tensor) or _address_of(tensor) is not None or not numel(tensor)


def _address_of(tensor: torch.Tensor) -> int | None:
    """The address of a CPU tensor; None if it has no memory or wraps another tensor, as in `torch.func`."""
    try:
        address = data_ptr(tensor)
    except RuntimeError:  # "Cannot access data pointer of Tensor that doesn't have storage".
        return None
    if address < _HIGH_ADDRESS and address == storage_offset(tensor) * tensor.dtype.itemsize:
        return None
    return address


def _readable(tensor: torch.Tensor) -> Readable | None:
    """The readable content of `tensor`; None if there is none."""
    parts = _parts_of(tensor)
    if parts is None:
        return None
    values = parts[-1]
    # Computation on a device may fail there, so it is left to `_table`.
    return Readable(_reducible(values) if is_hosted(values) else values, parts)


def _reducible(values: torch.Tensor) -> torch.Tensor:
    """`values` in a real dtype that torch reduces."""
    dtype = values.dtype
    if dtype.is_complex:
        return real_numbers(values)
    if dtype.is_floating_point:
        return values if dtype in _REDUCED else convert(values, torch.float32)
    return values if is_hosted(values) else convert(values, _widest_floating(values.device))


def _summarize_others(places: list[int], tensors: Sequence[torch.Tensor | None], results: list[PendingOr]) -> None:
    """Put the statistics of the tensors at `places`, which may be of any kind, into `results`."""
    hosted: list[tuple[int, Readable]] = []
    remote: dict[torch.device, list[tuple[int, Readable]]] = {}
    for index in places:
        tensor = tensors[index]
        found = None if tensor is None else _readable(tensor)
        if found is None:
            continue
        if numel(found.values) == 0:
            results[index] = _EMPTY
        elif is_hosted(found.values):
            hosted.append((index, found))
        else:
            remote.setdefault(found.values.device, []).append((index, found))
    found_extents = extents.extents([found.values for _, found in hosted])
    for (index, found), (lowest, highest, norm, nonfinite, of_values) in zip(hosted, found_extents, strict=True):
        lies_otherwise = found.parts[0] is not found.values  # Stored differently from the reduced values.
        bits = extents.fingerprint_of(found.parts) if lies_otherwise else of_values
        results[index] = _statistics(lowest, highest, norm, nonfinite, bits)
    for members in remote.values():
        _summarize_remote(members, results)


def _item_of(tensor: torch.Tensor) -> Item | None:
    """The library's item for `tensor`; None if the library cannot read it."""
    if (
        extents.library is not None
        and type(tensor) in PLAIN
        and is_hosted(tensor)
        and (kind := KINDS.get(tensor.dtype)) is not None
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and is_contiguous(tensor)
        and dimensions(tensor) <= MOST_DIMENSIONS
        and not is_neg(tensor)
        and (address := _address_of(tensor)) is not None
    ):
        return packed(address, numel(tensor), kind)
    return None


def _statistics(lowest: float, highest: float, norm: float, nonfinite: int, bits: int) -> Statistics:
    """The statistics in a trace for an extent."""
    text = f"{bits:016x}"
    if nonfinite or norm - norm != 0:
        return Statistics(as_number(lowest), as_number(highest), as_number(norm), nonfinite, text)
    return Statistics(lowest, highest, norm, 0, text)


def _summarize_remote(members: list[tuple[int, Readable]], results: list[PendingOr]) -> None:
    """Put the pending statistics of tensors on one accelerator into `results`, at their indices."""
    copy = HostCopy(lambda: _table([found for _, found in members]))
    if copy.has_failed and len(members) > 1:  # One may be too large for the free memory.
        for member in members:
            _summarize_remote([member], results)
        return
    for row, (index, found) in enumerate(members):
        results[index] = PendingStatistics(copy, row, size_in_bytes(found.parts))


def _norms(tensors: list[torch.Tensor], dtype: torch.dtype) -> Sequence[torch.Tensor]:
    """The L2 norms, by one fused call; in float32 for the narrow dtypes, whose squares overflow."""
    return foreach_norm(tensors, 2, torch.float32 if dtype in _NARROW else None)


def _table(found: list[Readable]) -> Table:
    """Minimum, maximum, norm, non-finite count and weighted sum of each tensor, on the tensors' device."""
    tensors = [_reducible(each.values) for each in found]
    wide = _widest_floating(tensors[0].device)
    extremes = stack([convert(stack(aminmax(tensor)), wide) for tensor in tensors])
    by_dtype: dict[torch.dtype, list[int]] = {}
    for index, tensor in enumerate(tensors):
        by_dtype.setdefault(tensor.dtype, []).append(index)
    norms: list[torch.Tensor] = [extremes] * len(tensors)
    for dtype, indices in by_dtype.items():
        for index, norm in zip(indices, _norms([tensors[i] for i in indices], dtype), strict=True):
            norms[index] = convert(norm, wide)
    floats = concatenate((extremes, stack(norms)[:, None]), dim=1)
    counts = stack([_nonfinite(tensor) for tensor in tensors])
    return Table(floats, stack((counts, stack(weighted_sums([each.parts for each in found]))), 1))


def _nonfinite(tensor: torch.Tensor) -> torch.Tensor:
    """The number of NaN and infinite elements of `tensor`: int64, on the device, without waiting."""
    if numel(tensor) <= _PIECE or not is_contiguous(tensor):
        return total(~isfinite(tensor))
    # Intermediate results are as large as the input, and the device may have little memory left.
    pieces = split(view(tensor, (-1,)), _PIECE)
    return total(stack([total(~isfinite(piece)) for piece in pieces]))


def _widest_floating(device: torch.device) -> torch.dtype:
    """The widest floating-point dtype of `device`; float32 holds integers only up to 2**24."""
    if device.type == "mps" or (device.type == "xpu" and not torch.xpu.get_device_properties(device).has_fp64):
        return torch.float32
    return torch.float64
