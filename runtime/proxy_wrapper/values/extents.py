"""Minimum, maximum, norm and fingerprint of tensors on the CPU, small ones of one size together.

There the calls cost most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import torch

from proxy_wrapper.values.fingerprint import (
    PIECE_BYTES,
    RunningFingerprint,
    fingerprint,
    fingerprints_of_rows,
    size_in_bytes,
)
from proxy_wrapper.values.torch_functions import (
    amax,
    amin,
    aminmax,
    convert,
    flatten,
    foreach_norm,
    is_contiguous,
    is_floating_point,
    is_neg,
    item,
    numel,
    split,
    stack,
    tolist,
    vector_norm,
    view,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SMALL: Final = 1 << 12
"""Up to this many elements, tensors of one size are stacked and reduced by rows: that is then faster (eight of 128
elements by 4 times)."""

_FEW: Final = 3
"""Fewer tensors of one size than this are faster one by one, where the caches are cold, as they are in a step."""

_STACK: Final = 1 << 15
"""How many elements a stack has at most: as many as torch reduces in one thread, and so in one order. The norms of the
rows are then, to the bit, those of the tensors alone."""

_NARROW: Final = (torch.float16, torch.bfloat16)


class Extents(NamedTuple):
    """Of several tensors, each one's least and greatest element, its L2 norm and its fingerprint.

    Lists of numbers and words, which the garbage collector does not count, as it would count a tuple for each tensor.
    """

    lowest: list[float]
    highest: list[float]
    norms: list[float]
    bits: list[str]


def extents(tensors: Sequence[torch.Tensor]) -> Extents:
    """The extents of tensors, in order; a NaN anywhere makes each of a tensor's three numbers NaN.

    To be called where autograd is off.

    Args:
        tensors: on the CPU, strided, with elements, of floating dtypes, integers or truth values.
    """
    if len(tensors) == 1:  # As of what a call gives: without the lists.
        low, high, norm, text = _of_one(tensors[0])
        return Extents([low], [high], [norm], [text])
    lowest, highest, norms = [0.0] * len(tensors), [0.0] * len(tensors), [0.0] * len(tensors)
    bits = [""] * len(tensors)
    for indices, found in _groups(tensors):
        if len(indices) == 1:
            (index,) = indices
            lowest[index], highest[index], norms[index], bits[index] = _of_one(found)
            continue
        for index, low, high, norm, text in zip(indices, *_of_rows(found), strict=True):
            lowest[index], highest[index], norms[index], bits[index] = low, high, norm, text
    return Extents(lowest, highest, norms, bits)


def fingerprints(tensors: Sequence[torch.Tensor]) -> list[str]:
    """The fingerprint of each tensor, as `extents` gives it."""
    bits = [""] * len(tensors)
    for indices, found in _groups(tensors):
        texts = [fingerprint((found,))] if len(indices) == 1 else fingerprints_of_rows(found)
        for index, text in zip(indices, texts, strict=True):
            bits[index] = text
    return bits


def _groups(tensors: Sequence[torch.Tensor]) -> Iterator[tuple[list[int], torch.Tensor]]:
    """The tensors in groups: their places, and one tensor alone, or several as the rows of one where that is faster."""
    small: dict[tuple[torch.dtype, int], list[int]] = {}
    for index, tensor in enumerate(tensors):
        dtype, size = tensor.dtype, numel(tensor)
        if size <= _SMALL and dtype not in _NARROW and is_contiguous(tensor):
            small.setdefault((dtype, size), []).append(index)
        else:
            yield [index], tensor
    for (_, size), alike in small.items():
        most = _STACK // max(1, size)
        for first in range(0, len(alike), most):
            indices = alike[first : first + most]
            if len(indices) < _FEW:
                for index in indices:
                    yield [index], tensors[index]
            else:
                yield indices, view(_join([tensors[index] for index in indices]), (len(indices), size))


def _of_one(tensor: torch.Tensor) -> tuple[float, float, float, str]:
    """Minimum, maximum, norm and fingerprint of a tensor."""
    if _is_read_in_pieces(tensor):
        return _of_pieces(tensor)
    values = _floating(tensor)
    low, high = aminmax(values)  # Faster than an `amin` and an `amax`, which go over the memory twice.
    return item(low), item(high), _norm(values), fingerprint((tensor,))


def _of_rows(rows: torch.Tensor) -> Extents:
    """The extents of each row of a contiguous tensor, (n, k)."""
    values = _floating(rows)
    norms = vector_norm(values, dim=1)
    return Extents(tolist(amin(values, 1)), tolist(amax(values, 1)), tolist(norms), fingerprints_of_rows(rows))


def _is_read_in_pieces(tensor: torch.Tensor) -> bool:
    """Whether `tensor` is larger than a piece, and lies in memory as it is reduced."""
    return (
        size_in_bytes((tensor,)) > PIECE_BYTES
        and is_contiguous(tensor)
        and is_floating_point(tensor)
        and tensor.dtype not in _NARROW
        and not is_neg(tensor)
    )


def _of_pieces(tensor: torch.Tensor) -> tuple[float, float, float, str]:
    """Minimum, maximum, norm and fingerprint of a tensor that is read piece by piece.

    What was just read for its extremes is in the cache for the rest then, and the tensor comes from memory once.
    """
    running = RunningFingerprint(tensor)
    extremes: list[torch.Tensor] = []
    squares = 0.0
    pieces = split(view(tensor, (-1,)), PIECE_BYTES // tensor.dtype.itemsize)
    for number, piece in enumerate(pieces, 1):
        extremes += aminmax(piece)
        norm = _norm(piece)
        squares += norm * norm
        running.read_to(number * PIECE_BYTES)
    low, high = aminmax(stack(extremes))
    return item(low), item(high), math.sqrt(squares), running.finish()


def _floating(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, or its integers or truth values as floating-point numbers."""
    return tensor if is_floating_point(tensor) else convert(tensor, torch.float64)


def _join(tensors: list[torch.Tensor]) -> torch.Tensor:
    """The elements of all, one tensor after the other; `stack` is the faster, but wants one shape."""
    shape = tensors[0].shape
    if all([tensor.shape == shape for tensor in tensors]):  # noqa: C419  A list is the faster by half.
        return stack(tensors)
    return flatten(tensors)


def _norm(values: torch.Tensor) -> float:
    """The L2 norm, in float32 for the narrow dtypes, whose squares overflow."""
    norm: float = item(foreach_norm((values,), 2, torch.float32 if values.dtype in _NARROW else None)[0])
    return norm
