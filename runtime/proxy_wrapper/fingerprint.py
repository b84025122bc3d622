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

from ctypes import c_char
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import _disable_current_modes

from proxy_wrapper.torch_functions import (
    add_,
    arange,
    bitwise_and,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    concatenate,
    contiguous,
    convert,
    copy_into,
    data_ptr,
    dot,
    frombuffer,
    is_neg,
    item,
    multiply,
    mv,
    narrow,
    numel,
    resolve_conj,
    resolve_neg,
    tolist,
    total,
    view,
    zeros,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHORT: Final = 1 << 16
"""Up to this many bytes each word has a weight of its own. There both ways take as long."""

_COLUMNS: Final = (2039, 2029)
"""How many words a row has in either sequence. Powers of two would be slower, too: their rows share cache sets."""

_BLOCK: Final = 16
"""So many rows are summed at a time, which the nearer caches hold. All at once take twice as long, from memory."""

_PIECE: Final = 1 << 24
"""How many halves an accelerator copies at a time, to align them: 64 MB."""

_HALF_BYTES: Final = 4
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
    sums = [item(dot(terms, narrow(_WEIGHTS, 0, 0, numel(terms)))) for terms in map(_terms, parts)]
    return as_text(_combined(sums), size_in_bytes(parts))


def fingerprints_of_rows(rows: torch.Tensor) -> list[str]:
    """The fingerprint of each row of a contiguous tensor on the CPU, (n, k), of at most `_SHORT` bytes a row."""
    row_bytes = rows.shape[1] * rows.dtype.itemsize
    if row_bytes % _HALF_BYTES:
        return [fingerprint((row,)) for row in rows.unbind()]
    terms = convert(view(rows, torch.int32), torch.int64)  # (n, row_bytes / 4)
    weights = narrow(_WEIGHTS, 0, 0, row_bytes // _HALF_BYTES)
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
    size_bytes = numel(tensor) * tensor.dtype.itemsize
    if is_neg(tensor):
        tensor = resolve_neg(tensor)
    flat = view(contiguous(resolve_conj(tensor)), (-1,))
    if size_bytes % _HALF_BYTES:
        padded = zeros((size_bytes + _HALF_BYTES - size_bytes % _HALF_BYTES,), dtype=torch.uint8, device=tensor.device)
        copy_into(narrow(padded, 0, 0, size_bytes), view(flat, torch.uint8))
        flat = padded
    elif flat.storage_offset() * flat.dtype.itemsize % _HALF_BYTES:
        flat = flat.clone()
    return view(flat, torch.int32)


def _terms(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers, int64, that are weighted for `tensor`: its halves themselves, or what they are summed up to."""
    halves = _halves(tensor)
    if numel(halves) <= _SHORT // _HALF_BYTES:
        return convert(halves, torch.int64)
    terms = []
    for skipped, columns in enumerate(_COLUMNS):
        rows, rest = divmod((numel(halves) - skipped) // 2, columns)
        terms.append(_column_sums(narrow(halves, 0, skipped, 2 * rows * columns), rows, columns))
        terms.append(_words(narrow(halves, 0, skipped + 2 * rows * columns, 2 * rest)))
    terms.append(convert(narrow(halves, 0, numel(halves) - 1, 1), torch.int64))  # No word of one sequence has it.
    return concatenate(terms)


def _column_sums(halves: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The sums of the columns, (columns,), of the words in `halves`, which are so many rows."""
    in_blocks = rows - rows % _BLOCK
    at_once = in_blocks if halves.is_cpu else _PIECE // (2 * _BLOCK * columns) * _BLOCK
    last = _words(narrow(halves, 0, 2 * in_blocks * columns, 2 * (rows - in_blocks) * columns))
    sums = total(view(last, (rows - in_blocks, columns)), 0)
    for first in range(0, in_blocks, at_once or 1):
        count = min(at_once, in_blocks - first)
        words = _words(narrow(halves, 0, 2 * first * columns, 2 * count * columns))
        blocks = total(view(words, (count // _BLOCK, _BLOCK, columns)), 1)
        add_(sums, total(blocks, 0))
    return sums


def _words(halves: torch.Tensor) -> torch.Tensor:
    """An even number of halves as 64-bit words.

    On the CPU it shares their memory, which has to outlive it. No view: torch has none that begins between two words.
    """
    size_bytes = numel(halves) * _HALF_BYTES
    if halves.is_cpu and size_bytes:
        return frombuffer((c_char * size_bytes).from_address(data_ptr(halves)), dtype=torch.int64)
    return view(halves if halves.storage_offset() % 2 == 0 else halves.clone(), torch.int64)


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
