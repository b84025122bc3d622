"""Minimum, maximum, norm and fingerprint of tensors on the CPU, small ones of one size together.

There the calls cost most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import torch

from proxy_wrapper.fingerprint import fingerprint, fingerprints_of_rows
from proxy_wrapper.torch_functions import (
    amax,
    amin,
    aminmax,
    convert,
    flatten,
    foreach_norm,
    is_contiguous,
    is_floating_point,
    item,
    numel,
    stack,
    tolist,
    vector_norm,
    view,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LARGE: Final = 1 << 15
"""From this many elements on, `amin` and `amax` are faster than one `aminmax` on the CPU (by 1.6 at 2**20), and a
tensor is a group of its own: what was just read for its norm is in the cache, so a large model comes from memory once
(ten million elements: 4.0 ms, where the norms of all together before the rest take 4.9)."""

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
    lowest, highest, norms = [0.0] * len(tensors), [0.0] * len(tensors), [0.0] * len(tensors)
    bits = [""] * len(tensors)
    for indices, members in _groups(tensors):
        if isinstance(members, torch.Tensor):
            values = _floating(members)
            group_norms: list[float] = tolist(vector_norm(values, dim=1))
            group_bits = fingerprints_of_rows(members)
            lows, highs = tolist(amin(values, 1)), tolist(amax(values, 1))
            for index, low, high, norm, text in zip(indices, lows, highs, group_norms, group_bits, strict=True):
                lowest[index], highest[index], norms[index], bits[index] = low, high, norm, text
            continue
        group_norms = _norms(members)
        for index, member, norm in zip(indices, members, group_norms, strict=True):
            values = _floating(member)
            if numel(member) >= _LARGE:
                lowest[index], highest[index], norms[index] = item(amin(values)), item(amax(values)), norm
            else:
                low, high = aminmax(values)
                lowest[index], highest[index], norms[index] = item(low), item(high), norm
            bits[index] = fingerprint((member,))
    return Extents(lowest, highest, norms, bits)


def fingerprints(tensors: Sequence[torch.Tensor]) -> list[str]:
    """The fingerprint of each tensor, as `extents` gives it."""
    found = [""] * len(tensors)
    for indices, members in _groups(tensors):
        if isinstance(members, torch.Tensor):
            group_bits = fingerprints_of_rows(members)
        else:
            group_bits = [fingerprint((member,)) for member in members]
        for index, text in zip(indices, group_bits, strict=True):
            found[index] = text
    return found


def _groups(tensors: Sequence[torch.Tensor]) -> Iterator[tuple[list[int], torch.Tensor | list[torch.Tensor]]]:
    """The tensors in groups: their places, and themselves; as the rows of one tensor where that is faster."""
    small: dict[tuple[torch.dtype, int], list[int]] = {}
    others: dict[torch.dtype, list[int]] = {}
    for index, tensor in enumerate(tensors):
        dtype, size = tensor.dtype, numel(tensor)
        if size >= _LARGE:
            yield [index], [tensor]
        elif size <= _SMALL and dtype not in _NARROW and is_contiguous(tensor):
            small.setdefault((dtype, size), []).append(index)
        else:
            others.setdefault(dtype, []).append(index)
    for (dtype, size), alike in small.items():
        most = _STACK // max(1, size)
        for first in range(0, len(alike), most):
            indices = alike[first : first + most]
            if len(indices) < _FEW:
                others.setdefault(dtype, []).extend(indices)
            else:
                rows = view(_join([tensors[index] for index in indices]), (len(indices), size))
                yield indices, rows
    for indices in others.values():
        yield indices, [tensors[index] for index in indices]


def _floating(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, or its integers or truth values as floating-point numbers."""
    return tensor if is_floating_point(tensor) else convert(tensor, torch.float64)


def _join(tensors: list[torch.Tensor]) -> torch.Tensor:
    """The elements of all, one tensor after the other; `stack` is the faster, but wants one shape."""
    shape = tensors[0].shape
    if all([tensor.shape == shape for tensor in tensors]):  # noqa: C419  A list is the faster by half.
        return stack(tensors)
    return flatten(tensors)


def _norms(members: list[torch.Tensor]) -> list[float]:
    # The squares of the narrow dtypes overflow.
    dtype = torch.float32 if members[0].dtype in _NARROW else None
    return [item(norm) for norm in foreach_norm([_floating(member) for member in members], 2, dtype)]
