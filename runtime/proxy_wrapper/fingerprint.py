"""Fingerprints of tensors: 64 bits that tell exactly whether values are the same.

A fingerprint depends on the bytes of the elements in their logical order, and on nothing else: it is the same for any
strides, number of threads, machine and device, since integers are summed modulo 2**64, in whatever order.

What is summed decides what is seen. A plain sum of words misses every permutation, and 64-bit words hide their upper
bits: two signs that flip at bit 63 cancel. So words are weighted by place, and each byte stands in the lower half of some
word.

- Up to `_SHORT` bytes: the 32-bit words, widened to 64 bits, each times a weight.
- Above: words of 64 bits, once from the first byte on and once from the fifth. Either sequence is laid out in rows, and
  its columns are summed; the sums are weighted, and so are the words that are left over. The lengths of the rows are two
  primes, so that no elements that a model's shapes relate share a column in both, or in either.

To multiply each word of a large tensor by a weight would take four times as long (`benchmarks/fingerprint_cost.py`).
"""

from __future__ import annotations

from ctypes import c_char
from typing import TYPE_CHECKING, Final

import torch
from torch.utils._python_dispatch import _disable_current_modes

from proxy_wrapper.torch_functions import (
    concatenate,
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
    reshape,
    resolve_conj,
    resolve_neg,
    stack,
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
"""So many rows are summed at a time, which the nearer caches hold: from memory that takes half as long as all at once."""

_HALF_BYTES: Final = 4
_ALL_BITS: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15


def as_text(fingerprint: int) -> str:
    """A fingerprint as records have it: 16 hexadecimal digits."""
    return f"{fingerprint:016x}"


def of_sum(weighted_sum: int, size_bytes: int) -> int:
    """The fingerprint of so many bytes whose weighted sum is given: 0 for none."""
    return (weighted_sum + size_bytes * _GOLDEN) & _ALL_BITS


def fingerprint(tensor: torch.Tensor) -> int:
    """The fingerprint of a strided tensor on the CPU, of any dtype.

    To be called, as all here, where neither modes nor autograd see it.
    """
    halves, size_bytes = _halves(tensor)
    terms = _terms(halves, size_bytes)
    return of_sum(item(dot(terms, narrow(_WEIGHTS, 0, 0, numel(terms)))), size_bytes)


def fingerprints_of_rows(rows: torch.Tensor) -> list[int]:
    """The fingerprint of each row of a contiguous tensor on the CPU, (n, k), of at most `_SHORT` bytes a row."""
    row_bytes = rows.shape[1] * rows.dtype.itemsize
    if row_bytes % _HALF_BYTES:
        return [fingerprint(row) for row in rows.unbind()]
    terms = convert(view(rows, torch.int32), torch.int64)  # (n, row_bytes / 4)
    weights = narrow(_WEIGHTS, 0, 0, row_bytes // _HALF_BYTES)
    return [of_sum(weighted_sum, row_bytes) for weighted_sum in tolist(mv(terms, weights))]


def weighted_sums(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[int]]:
    """What fingerprints of tensors on a device are made of, by `of_sum`; the device is not waited for.

    Args:
        tensors: strided ones of any dtypes, all on one device.

    Returns:
        The weighted sums, (n,) int64 on the device, and the sizes in bytes.
    """
    weights = _make_weights(tensors[0].device)
    sums, sizes = [], []
    for tensor in tensors:
        halves, size_bytes = _halves(tensor)
        terms = _terms(halves, size_bytes)
        sums.append(total(multiply(terms, narrow(weights, 0, 0, numel(terms)))))
        sizes.append(size_bytes)
    return stack(sums), sizes


def _halves(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The bytes of a tensor as a flat one of int32, zeros filling up the last, and how many bytes they are."""
    size_bytes = numel(tensor) * tensor.dtype.itemsize
    if is_neg(tensor):
        tensor = resolve_neg(tensor)
    flat = reshape(resolve_conj(tensor), (-1,))
    if size_bytes % _HALF_BYTES:
        padded = zeros((size_bytes + _HALF_BYTES - size_bytes % _HALF_BYTES,), dtype=torch.uint8, device=tensor.device)
        copy_into(narrow(padded, 0, 0, size_bytes), view(flat, torch.uint8))
        flat = padded
    elif flat.storage_offset() * flat.dtype.itemsize % _HALF_BYTES:
        flat = flat.clone()
    return view(flat, torch.int32), size_bytes


def _terms(halves: torch.Tensor, size_bytes: int) -> torch.Tensor:
    """The numbers, int64, that are weighted: the halves themselves, or what they are summed up to."""
    if size_bytes <= _SHORT:
        return convert(halves, torch.int64)
    terms = []
    for skipped, columns in enumerate(_COLUMNS):
        words = _words(halves, skipped)
        rows, rest = divmod(numel(words), columns)
        terms.append(_column_sums(words, rows, columns))
        terms.append(narrow(words, 0, rows * columns, rest))
    terms.append(convert(narrow(halves, 0, numel(halves) - 1, 1), torch.int64))  # No word of one sequence has it.
    return concatenate(terms)


def _column_sums(words: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The sums of the columns, (columns,), of the first `rows` rows that `words` are laid out in."""
    in_blocks = rows - rows % _BLOCK
    last = view(narrow(words, 0, in_blocks * columns, (rows - in_blocks) * columns), (rows - in_blocks, columns))
    if in_blocks:
        blocks = view(narrow(words, 0, 0, in_blocks * columns), (in_blocks // _BLOCK, _BLOCK, columns))
        last = concatenate((total(blocks, 1), last))
    return total(last, 0)


def _words(halves: torch.Tensor, skipped: int) -> torch.Tensor:
    """The whole 64-bit words in `halves`, from one of these on.

    On the CPU it shares their memory, which has to outlive it. No view: torch has none that begins between two words.
    """
    count = (numel(halves) - skipped) // 2
    if halves.is_cpu:
        memory = (c_char * (numel(halves) * _HALF_BYTES)).from_address(data_ptr(halves))
        return frombuffer(memory, dtype=torch.int64, count=count, offset=skipped * _HALF_BYTES)
    part = narrow(halves, 0, skipped, 2 * count)
    return view(part.clone() if skipped else part, torch.int64)


def _make_weights(device: torch.device) -> torch.Tensor:
    """The weights: odd numbers, (`_SHORT` / 4,) int64, which splitmix64 gives out (Steele et al., OOPSLA 2014)."""
    numbers = torch.arange(1, _SHORT // _HALF_BYTES + 1, dtype=torch.int64, device=device) * _as_signed(_GOLDEN)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = _xor_shifted(numbers, shift) * _as_signed(factor)
    return _xor_shifted(numbers, 31) | 1


def _xor_shifted(numbers: torch.Tensor, shift: int) -> torch.Tensor:
    """The exclusive or of numbers with themselves, shifted to the right as unsigned ones."""
    return numbers ^ ((numbers >> shift) & (_ALL_BITS >> shift))


def _as_signed(number: int) -> int:
    """The signed 64-bit number that has the bits of an unsigned one."""
    return number - (_ALL_BITS + 1) if number >> 63 else number


with _disable_current_modes():  # Whatever mode the program is in when it proxies its first model.
    _WEIGHTS: Final = _make_weights(torch.device("cpu"))
