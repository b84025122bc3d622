"""Fingerprints of tensors: 64 bits that are equal for equal values.

A fingerprint depends only on the bytes of the elements in logical order. It is the same for any strides, number of
threads, machine and device, because integers are summed modulo 2**64, in any order.

The choice of summands decides which changes are detected. A plain sum of words misses permutations, and 64-bit words
hide their upper bits: two sign flips at bit 63 cancel. So words are weighted by position, and each byte is in the
lower half of some word.

- Up to `_SHORT` bytes: 32-bit words, widened to 64 bits, each times a weight.
- Above: 64-bit words in two sequences, one from the first byte and one from the fifth. Each sequence is laid out in
  rows, and its columns are summed. These sums are weighted, and so are the words left over. The row lengths are two
  primes.

Equal values have equal fingerprints. Up to `_SHORT` bytes, different values have equal ones with probability 2**-64.
Above, changes that cancel within columns go undetected: two words swapped across a multiple of both primes (4 million
words), or two opposite elements swapped across a multiple of one prime, if only that sequence has their signs in a
lower half.

A sparse tensor has two parts, indices and values, which are summed separately. The sum of one part, times an odd
number, is added to that of the next; the sizes are combined likewise.

Torch's functions compute it here: on accelerators, and on the CPU if `one_pass.py` has no library.
"""

from __future__ import annotations

from ctypes import c_char
from math import prod
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import _disable_current_modes

from proxy_wrapper.values.torch_functions import (
    add_,
    arange,
    as_strided,
    bitwise_and,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    clone,
    concatenate,
    conj,
    contiguous,
    convert,
    copy_into,
    data_ptr,
    dot,
    frombuffer,
    is_complex,
    is_conj,
    is_neg,
    item,
    multiply,
    narrow,
    negate_,
    numel,
    resolve_neg,
    select,
    total,
    view,
    view_as_real,
    zeros,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHORT: Final = 1 << 16
"""Up to this many bytes, each word has its own weight. At this size both methods take the same time."""

_COLUMNS: Final = (2039, 2029)
"""The words per row in each sequence. Powers of two would also be slower, because their rows share cache sets."""

_BLOCK: Final = 16
"""The rows of a large tensor that are summed at a time: they fit into the L1 cache. Summing all at once takes 1.5
times as long from memory."""

_PIECE_BYTES: Final = 16 * _BLOCK * _COLUMNS[0] * 8
"""How much of a CPU tensor is read at a time, so that the second sequence finds it in the cache: 4 MB."""

_DEVICE_PIECE_BYTES: Final = 1 << 26
"""How many bytes an accelerator copies at a time to align them."""

_Memory: Final = c_char * (1 << 46)
"""A type for any memory, of which a part is used. Making a type for each size would take as long as a large sum."""

_HALF_BYTES: Final = 4
_ALL_BITS: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15
_ODD: Final = _GOLDEN - (1 << 64)
"""The same bits as a signed number, for torch."""


def as_text(fingerprint: int) -> str:
    """A fingerprint as 16 hexadecimal digits, all 0 for a tensor without bytes."""
    return f"{fingerprint:016x}"


def of_weighted_sum(weighted_sum: int, size_bytes: int) -> int:
    """The fingerprint of a tensor with this weighted sum and size (see `size_in_bytes`)."""
    return (weighted_sum + size_bytes * _GOLDEN) & _ALL_BITS


def fingerprint(tensor: torch.Tensor) -> int:
    """The fingerprint of a strided tensor on the CPU, of any dtype.

    Like everything here, call it where no mode is active and autograd is off.
    """
    terms = _terms(tensor)
    weighted_sum = int(item(dot(terms, narrow(_WEIGHTS, 0, 0, numel(terms)))))
    return of_weighted_sum(weighted_sum, size_in_bytes((tensor,)))


def combined(fingerprints: Sequence[int]) -> int:
    """The fingerprint of a tensor whose parts have these fingerprints."""
    return int(_combined(fingerprints)) & _ALL_BITS


def weighted_sums(tensors: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
    """The weighted sums for `of_weighted_sum`: () int64 each, on the tensors' device, without waiting for it.

    Args:
        tensors: the parts of each tensor: strided, of any dtypes, all on one device.
    """
    weights = _make_weights(tensors[0][0].device)
    found: list[torch.Tensor] = []
    for parts in tensors:
        sums = [total(multiply(terms, narrow(weights, 0, 0, numel(terms)))) for terms in map(_terms, parts)]
        found.append(_combined(sums))
    return found


def size_in_bytes(parts: Sequence[torch.Tensor]) -> int:
    """The size in bytes of a tensor with one part; for several, a number that depends on each part's size."""
    size: int = _combined([numel(part) * part.dtype.itemsize for part in parts])
    return size


def _combined(numbers: Sequence[Any]) -> Any:
    """One number for several, dependent on their order."""
    number = numbers[0]
    for each in numbers[1:]:
        number = number * _ODD + each
    return number


def as_real_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor with the elements of `tensor` as real bytes, in order; itself if possible."""
    if is_neg(tensor):
        tensor = resolve_neg(tensor)
    return contiguous(real_numbers(tensor) if is_complex(tensor) else tensor)


def _halves(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor as flat int32, padded with zeros."""
    values = as_real_bytes(tensor)
    flat = as_strided(values, (numel(values),), (1,))  # `view` may fail: a single element can have any stride.
    size_bytes = numel(flat) * flat.dtype.itemsize
    if size_bytes % _HALF_BYTES:
        padded = zeros((size_bytes + _HALF_BYTES - size_bytes % _HALF_BYTES,), dtype=torch.uint8, device=tensor.device)
        copy_into(narrow(padded, 0, 0, size_bytes), view(flat, torch.uint8))
        flat = padded
    elif flat.storage_offset() * flat.dtype.itemsize % _HALF_BYTES:
        flat = clone(flat)
    return view(flat, torch.int32)


def real_numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The real and imaginary parts of a complex tensor, (..., 2); a view of its memory unless it is conjugated.

    No other complex tensor is created, because torch warns of each one of half precision.
    """
    if not is_conj(tensor):
        return view_as_real(tensor)
    numbers = clone(view_as_real(conj(tensor)))  # The tensor before conjugation.
    negate_(select(numbers, -1, 1))
    return numbers


def _terms(tensor: torch.Tensor) -> torch.Tensor:
    """The int64 numbers to be weighted for `tensor`: its halves, or the sums of its columns."""
    halves = _halves(tensor)
    count = numel(halves)
    if count <= _SHORT // _HALF_BYTES:
        return convert(halves, torch.int64)
    sequences = [_ColumnSums(halves, skipped, columns) for skipped, columns in enumerate(_COLUMNS)]
    piece = (_PIECE_BYTES if halves.is_cpu else _DEVICE_PIECE_BYTES) // _HALF_BYTES
    for end in range(piece, count + piece, piece):
        for each in sequences:
            each.read_to(min(end, count))
    sums = [part for each in sequences for part in each.finish()]
    return concatenate([*sums, convert(narrow(halves, 0, count - 1, 1), torch.int64)])


class _ColumnSums:
    """The column sums of one sequence of words."""

    def __init__(self, halves: torch.Tensor, skipped: int, columns: int) -> None:
        """Begin a sequence that skips `skipped` halves and has `columns` words per row."""
        self._halves = halves
        self._skipped = skipped
        self._columns = columns
        self._rows, self._rest = divmod((numel(halves) - skipped) // 2, columns)
        self._next = 0  # The next row to read.
        self._sums = zeros((columns,), dtype=torch.int64, device=halves.device)

    def read_to(self, end: int) -> None:
        """Add the unread rows that end before the half `end`."""
        rows = min((end - self._skipped) // (2 * self._columns), self._rows) - self._next
        in_blocks = rows - rows % _BLOCK
        if in_blocks:
            add_(self._sums, total(total(self._part(self._next, (in_blocks // _BLOCK, _BLOCK, self._columns)), 1), 0))
        if rows > in_blocks:
            add_(self._sums, total(self._part(self._next + in_blocks, (rows - in_blocks, self._columns)), 0))
        self._next += rows

    def finish(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The column sums, after all rows were read, and the words that do not fill a row."""
        return self._sums, self._part(self._rows, (self._rest,))

    def _part(self, row: int, shape: tuple[int, ...]) -> torch.Tensor:
        """The words of the given shape, from a row on."""
        first, count = self._skipped + 2 * row * self._columns, prod(shape)
        part = narrow(self._halves, 0, first, 2 * count)
        if part.storage_offset() % 2 == 0:
            return view(view(part, torch.int64), shape)
        if part.is_cpu and count:  # Torch has no unaligned views, and copying doubles the time.
            memory = _Memory.from_address(data_ptr(part))
            return view(frombuffer(memory, dtype=torch.int64, count=count), shape)
        return view(view(clone(part), torch.int64), shape)


def _make_weights(device: torch.device) -> torch.Tensor:
    """The weights: odd numbers, (`_SHORT` / 4,) int64, from splitmix64 (Steele et al., OOPSLA 2014)."""
    numbers = multiply(arange(1, _SHORT // _HALF_BYTES + 1, dtype=torch.int64, device=device), _ODD)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = multiply(_xor_shifted(numbers, shift), _as_signed(factor))
    return bitwise_or(_xor_shifted(numbers, 31), 1)


def _xor_shifted(numbers: torch.Tensor, shift: int) -> torch.Tensor:
    """The exclusive or of numbers with themselves, logically shifted to the right."""
    return bitwise_xor(numbers, bitwise_and(bitwise_right_shift(numbers, shift), _ALL_BITS >> shift))


def _as_signed(number: int) -> int:
    """The signed 64-bit number with the bits of an unsigned one."""
    return number - (_ALL_BITS + 1) if number >> 63 else number


# Modes that the program has active when it proxies its first model must not see this.
with _disable_current_modes(), torch._C.DisableTorchFunction():
    _WEIGHTS: Final = _make_weights(torch.device("cpu"))
