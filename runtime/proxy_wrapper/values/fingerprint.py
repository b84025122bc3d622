"""Fingerprints of tensors: 64 bits that tell whether values are the same.

A fingerprint depends on the bytes of the elements in their logical order, and on nothing else: it is the same for any
strides, number of threads, machine and device, since integers are summed modulo 2**64, in whatever order.

What is summed decides what is seen. A plain sum of words misses every permutation, and 64-bit words hide their upper
bits: two signs that flip at bit 63 cancel. So words are weighted by place, and each byte stands in the lower half of
some word.

- Up to `_SHORT` bytes: the 32-bit words, widened to 64 bits, each times a weight.
- Above: words of 64 bits, once from the first byte on and once from the fifth. Either sequence is laid out in rows, and
  the columns are summed. These sums are weighted, and so are the words left over. The lengths of the rows are two
  primes.

Equal values have equal fingerprints. Different ones have different ones, up to `_SHORT` bytes but for a chance of one
in 2**64. Above, changes that cancel within columns are not seen: two words that change places a multiple of both primes
(4 million words) apart; two opposite elements that do, a multiple of one prime apart, where only one sequence has their
signs in a lower half.

The parts of a sparse tensor, indices and values, are summed up each for itself; the sum of the first, times an odd
number, is added to that of the next, and so are their sizes.

To multiply each word of a large tensor by a weight would take three times as long: torch multiplies 64-bit integers one
by one. docs/benchmarks.md has what it takes as it is.
"""

from __future__ import annotations

from ctypes import c_char, c_int32, c_int64
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
    is_contiguous,
    is_neg,
    item,
    multiply,
    mv,
    narrow,
    negate_,
    numel,
    resolve_neg,
    select,
    tolist,
    total,
    view,
    view_as_real,
    zeros,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHORT: Final = 1 << 16
"""Up to this many bytes each word has a weight of its own. There both ways take as long."""

_COLUMNS: Final = (2039, 2029)
"""How many words a row has in either sequence. Powers of two would be slower, too: their rows share cache sets."""

_BLOCK: Final = 16
"""So many rows of a large tensor are summed at a time, which the nearest cache holds. All at once take half as long
again where they come from memory."""

_AT_ONCE: Final = 8 * _BLOCK
"""Up to this many are summed at once, with fewer calls: of a tensor that is asked for its extremes, too, they have been
read just before."""

PIECE_BYTES: Final = 16 * _BLOCK * _COLUMNS[0] * 8
"""How much of a tensor on the CPU is read at a time, so that the second look at it finds it in the cache: 4 MB."""

_DEVICE_PIECE_BYTES: Final = 1 << 26
"""How much an accelerator copies at a time, to align it."""

_Memory: Final = c_char * (1 << 46)
"""As much as there may be, of which a part is looked at: to make a type for each size takes as long as a large sum."""

_HALF_BYTES: Final = 4
_OF_WHOLE_HALVES: Final = frozenset({torch.float32, torch.float64, torch.int32, torch.int64})
_ALL_BITS: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15
_ODD: Final = _GOLDEN - (1 << 64)
"""The same bits as a signed number, which torch multiplies by."""


def as_text(weighted_sum: int, size_bytes: int) -> str:
    """The fingerprint of a tensor with this weighted sum and size: 16 hexadecimal digits, all 0 if it has no bytes."""
    return f"{(weighted_sum + size_bytes * _GOLDEN) & _ALL_BITS:016x}"


def fingerprint(parts: Sequence[torch.Tensor]) -> str:
    """The fingerprint of a tensor that lies in these, strided ones on the CPU and of any dtypes.

    To be called, as all here, where neither modes nor autograd see it.
    """
    if len(parts) == 1:
        (part,) = parts
        return as_text(_weighted_sum(part), numel(part) * part.dtype.itemsize)
    return as_text(_combined([_weighted_sum(part) for part in parts]), size_in_bytes(parts))


def fingerprints_of_rows(rows: torch.Tensor) -> list[str]:
    """The fingerprint of each row of a contiguous tensor on the CPU, (n, k), of at most `_SHORT` bytes a row."""
    row_bytes = rows.shape[1] * rows.dtype.itemsize
    if row_bytes % _HALF_BYTES:
        return [fingerprint((row,)) for row in rows.unbind()]
    terms = convert(view(rows, torch.int32), torch.int64)  # (n, row_bytes / 4)
    weights = _first(_WEIGHTS, row_bytes // _HALF_BYTES)
    return [as_text(weighted_sum, row_bytes) for weighted_sum in tolist(mv(terms, weights))]


def weighted_sums(tensors: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
    """What `as_text` makes the fingerprints of: () int64 each, on the tensors' device, which is not waited for.

    Args:
        tensors: of each the parts that it lies in, strided ones of any dtypes, all on one device.
    """
    weights = _make_weights(tensors[0][0].device)
    found: list[torch.Tensor] = []
    for parts in tensors:
        sums = [total(multiply(terms, narrow(weights, 0, 0, numel(terms)))) for terms in map(_terms, parts)]
        found.append(_combined(sums))
    return found


def size_in_bytes(parts: Sequence[torch.Tensor]) -> int:
    """The size of a tensor that lies in these; where they are several, a number that depends on each one's."""
    size: int = _combined([numel(part) * part.dtype.itemsize for part in parts])
    return size


def _combined(numbers: Sequence[Any]) -> Any:
    """One number for several, in which their order counts."""
    number = numbers[0]
    for each in numbers[1:]:
        number = number * _ODD + each
    return number


def _halves(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor as a flat one of int32, zeros filling up the last."""
    if _is_of_whole_halves(tensor):
        return view(_first(tensor, numel(tensor)), torch.int32)
    size_bytes = numel(tensor) * tensor.dtype.itemsize
    if is_neg(tensor):
        tensor = resolve_neg(tensor)
    flat = view(contiguous(real_numbers(tensor) if is_complex(tensor) else tensor), (-1,))
    if numel(flat) == 1:
        flat = _first(flat, 1)
    if size_bytes % _HALF_BYTES:
        padded = zeros((size_bytes + _HALF_BYTES - size_bytes % _HALF_BYTES,), dtype=torch.uint8, device=tensor.device)
        copy_into(narrow(padded, 0, 0, size_bytes), view(flat, torch.uint8))
        flat = padded
    elif flat.storage_offset() * flat.dtype.itemsize % _HALF_BYTES:
        flat = flat.clone()
    return view(flat, torch.int32)


def _is_of_whole_halves(tensor: torch.Tensor) -> bool:
    """Whether a tensor lies in memory as it is read, as most do."""
    return tensor.dtype in _OF_WHOLE_HALVES and is_contiguous(tensor) and not is_neg(tensor)


def _first(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """The first elements of a contiguous tensor, flat.

    The cheapest of torch's ways to a view; and the stride of a single element, which may be any, is 1 then, without
    which torch would not view it as another dtype.
    """
    return as_strided(tensor, (count,), (1,))


def real_numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The real and imaginary parts of a complex tensor, (..., 2), in its own memory if they lie there as they are.

    No other complex tensor is made on the way: of each one of half precision torch would warn.
    """
    if not is_conj(tensor):
        return view_as_real(tensor)
    numbers = clone(view_as_real(conj(tensor)))  # Which is the tensor that it is the conjugate of.
    negate_(select(numbers, -1, 1))
    return numbers


def _weighted_sum(tensor: torch.Tensor) -> int:
    """The weighted sum of a tensor on the CPU."""
    halves = tensor if _is_of_whole_halves(tensor) else _halves(tensor)
    count = numel(halves) * halves.dtype.itemsize // _HALF_BYTES
    if count <= _SHORT // _HALF_BYTES:
        return int(item(dot(convert(_halves(halves), torch.int64), _first(_WEIGHTS, count))))
    if count <= 2 * _AT_ONCE * _COLUMNS[1]:
        address = data_ptr(halves)
        return _weigh(_sums_at_once(address, count), address, count)
    return _read_in_pieces(_halves(halves), PIECE_BYTES).weighted_sum()


def _sums_at_once(address: int, halves: int) -> list[torch.Tensor]:
    """What `_LargeSums.finish` gives, for so many halves at an address, of few rows: with as few calls as can be."""
    sums: list[torch.Tensor] = []
    for skipped, columns in enumerate(_COLUMNS):
        count = (halves - skipped) // 2
        rows, rest = divmod(count, columns)
        words = _words_at(address + skipped * _HALF_BYTES, count)
        sums.append(total(as_strided(words, (rows, columns), (columns, 1)), 0))
        sums.append(as_strided(words, (rest,), (1,), count - rest))
    return sums


def _weigh(sums: list[torch.Tensor], address: int, halves: int) -> int:
    """The weighted sum of so many halves at an address, from what their words have been summed up to.

    The last half is weighted, too: of one sequence no word has it.
    """
    terms = concatenate(sums)
    count = numel(terms)
    # Read in memory, which takes a tenth of what torch takes to give out two numbers.
    last = c_int32.from_address(address + (halves - 1) * _HALF_BYTES).value
    weight = c_int64.from_address(_ADDRESS_OF_WEIGHTS + 8 * count).value
    return int(item(dot(terms, _first(_WEIGHTS, count)))) + last * weight


def _terms(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers, int64, that are weighted for `tensor`: its halves themselves, or what they are summed up to."""
    halves = _halves(tensor)
    if numel(halves) <= _SHORT // _HALF_BYTES:
        return convert(halves, torch.int64)
    sums = _read_in_pieces(halves, _DEVICE_PIECE_BYTES)
    return concatenate([*sums.finish(), convert(narrow(halves, 0, numel(halves) - 1, 1), torch.int64)])


def _read_in_pieces(halves: torch.Tensor, piece_bytes: int) -> _LargeSums:
    """The sums of a large tensor, all but its last piece read, so that either sequence finds a piece in the cache."""
    sums = _LargeSums(halves)
    piece = piece_bytes // _HALF_BYTES
    for end in range(piece, numel(halves), piece):
        sums.read_to(end)
    return sums


class RunningFingerprint:
    """The fingerprint of a tensor that somebody else reads, too, piece by piece: each is in the cache then."""

    def __init__(self, tensor: torch.Tensor) -> None:
        """Begin with a contiguous tensor on the CPU, of more than `_SHORT` bytes."""
        self._size_bytes = size_in_bytes((tensor,))
        self._sums = _LargeSums(_halves(tensor))

    def read_to(self, end_bytes: int) -> None:
        """Read what has not been read of the bytes before this one, but for what does not fill a row."""
        self._sums.read_to(end_bytes // _HALF_BYTES)

    def finish(self) -> str:
        """Read the rest; what `fingerprint` gives."""
        return as_text(self._sums.weighted_sum(), self._size_bytes)


class _LargeSums:
    """What a large tensor is summed up to, read from its first byte to its last."""

    def __init__(self, halves: torch.Tensor) -> None:
        self._halves = halves
        self._sequences = [_ColumnSums(halves, skipped, columns) for skipped, columns in enumerate(_COLUMNS)]

    def read_to(self, end: int) -> None:
        """Add up all rows that end before this half and have not been."""
        for each in self._sequences:
            each.read_to(end)

    def finish(self) -> list[torch.Tensor]:
        """Add up the rest; what is weighted of both sequences, int64, one tensor after the other."""
        return [part for each in self._sequences for part in each.finish()]

    def weighted_sum(self) -> int:
        """Add up the rest; the weighted sum, of a tensor on the CPU."""
        return _weigh(self.finish(), data_ptr(self._halves), numel(self._halves))


class _ColumnSums:
    """The sums of the columns of one sequence of words."""

    def __init__(self, halves: torch.Tensor, skipped: int, columns: int) -> None:
        """Begin a sequence that leaves out so many halves, and has so many words in a row."""
        self._halves = halves
        self._skipped = skipped
        self._columns = columns
        self._rows, self._rest = divmod((numel(halves) - skipped) // 2, columns)
        self._strides = (_BLOCK * columns, columns, 1)
        self._next = 0  # The row that is to be read next.
        self._sums: torch.Tensor | None = None
        self._words = _words(halves, skipped, self._rows * columns + self._rest) if halves.is_cpu else None

    def read_to(self, end: int) -> None:
        """Add up the rows that end before this half and have not been."""
        rows = min((end - self._skipped) // (2 * self._columns), self._rows) - self._next
        if rows > _AT_ONCE:
            rows -= rows % _BLOCK
            self._add(total(total(self._part(self._next, (rows // _BLOCK, _BLOCK, self._columns)), 1), 0))
        elif rows:
            self._add(total(self._part(self._next, (rows, self._columns)), 0))
        self._next += rows

    def finish(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The sums of the columns, and the words that do not fill a row."""
        while self._next < self._rows:
            self.read_to(numel(self._halves))
        assert self._sums is not None, "what is called large has a row"
        return self._sums, self._part(self._rows, (self._rest,))

    def _part(self, row: int, shape: tuple[int, ...]) -> torch.Tensor:
        """So many words as this shape has, from a row on."""
        first = row * self._columns
        if self._words is None:
            return view(_words(self._halves, self._skipped + 2 * first, prod(shape)), shape)
        return as_strided(self._words, shape, self._strides[-len(shape) :], first)

    def _add(self, sums: torch.Tensor) -> None:
        self._sums = sums if self._sums is None else add_(self._sums, sums)


def _words(halves: torch.Tensor, first: int, count: int) -> torch.Tensor:
    """So many 64-bit words, from a half on; on the CPU they share its memory."""
    if halves.is_cpu and count:
        return _words_at(data_ptr(halves) + first * _HALF_BYTES, count)
    part = narrow(halves, 0, first, 2 * count)
    return view(part if part.storage_offset() % 2 == 0 else part.clone(), torch.int64)


def _words_at(address: int, count: int) -> torch.Tensor:
    """So many 64-bit words at an address in memory, which has to outlive them.

    No view of a tensor: torch has none that begins between two words.
    """
    return frombuffer(_Memory.from_address(address), dtype=torch.int64, count=count)


def _make_weights(device: torch.device) -> torch.Tensor:
    """The weights: odd numbers, (`_SHORT` / 4,) int64, which splitmix64 gives out (Steele et al., OOPSLA 2014)."""
    numbers = multiply(arange(1, _SHORT // _HALF_BYTES + 1, dtype=torch.int64, device=device), _ODD)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = multiply(_xor_shifted(numbers, shift), _as_signed(factor))
    return bitwise_or(_xor_shifted(numbers, 31), 1)


def _xor_shifted(numbers: torch.Tensor, shift: int) -> torch.Tensor:
    """The exclusive or of numbers with themselves, shifted to the right as unsigned ones."""
    return bitwise_xor(numbers, bitwise_and(bitwise_right_shift(numbers, shift), _ALL_BITS >> shift))


def _as_signed(number: int) -> int:
    """The signed 64-bit number that has the bits of an unsigned one."""
    return number - (_ALL_BITS + 1) if number >> 63 else number


# Whatever modes the program is in when it proxies its first model, they are not to see this.
with _disable_current_modes(), torch._C.DisableTorchFunction():
    _WEIGHTS: Final = _make_weights(torch.device("cpu"))
    _ADDRESS_OF_WEIGHTS: Final = data_ptr(_WEIGHTS)
