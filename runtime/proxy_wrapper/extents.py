"""Minimum, maximum and norm of tensors on the CPU, small ones of one size together: there the calls cost most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import torch

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
    """Of several tensors, each one's least and greatest element, and its L2 norm.

    Lists of numbers, which the garbage collector does not count, as it would count a tuple for each tensor.
    """

    lowest: list[float]
    highest: list[float]
    norms: list[float]


def extents(tensors: Sequence[torch.Tensor]) -> Extents:
    """The extents of tensors, in order; a NaN anywhere makes each of a tensor's three numbers NaN.

    To be called where autograd is off.

    Args:
        tensors: on the CPU, strided, with elements, of floating dtypes, integers or truth values.
    """
    lowest, highest, norms = [0.0] * len(tensors), [0.0] * len(tensors), [0.0] * len(tensors)
    for indices, members in _groups(tensors):
        group_norms = _norms(members)
        if isinstance(members, torch.Tensor):
            rows = zip(indices, tolist(amin(members, 1)), tolist(amax(members, 1)), group_norms, strict=True)
            for index, low, high, norm in rows:
                lowest[index], highest[index], norms[index] = low, high, norm
            continue
        for index, member, norm in zip(indices, members, group_norms, strict=True):
            if numel(member) >= _LARGE:
                lowest[index], highest[index], norms[index] = item(amin(member)), item(amax(member)), norm
            else:
                low, high = aminmax(member)
                lowest[index], highest[index], norms[index] = item(low), item(high), norm
    return Extents(lowest, highest, norms)


def l2_norms(tensors: Sequence[torch.Tensor]) -> list[float]:
    """The L2 norm of each tensor, to the bit as `extents` finds it."""
    found = [0.0] * len(tensors)
    for indices, members in _groups(tensors):
        for index, norm in zip(indices, _norms(members), strict=True):
            found[index] = norm
    return found


def _groups(tensors: Sequence[torch.Tensor]) -> Iterator[tuple[list[int], torch.Tensor | list[torch.Tensor]]]:
    """The tensors in groups: their places, and themselves; as the rows of one tensor where that is faster."""
    small: dict[tuple[torch.dtype, int], list[int]] = {}
    others: dict[torch.dtype, list[int]] = {}
    for index, tensor in enumerate(tensors):
        dtype, size = tensor.dtype, numel(tensor)
        if size >= _LARGE:
            yield [index], [_floating(tensor)]
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
                yield indices, _floating(rows)
    for indices in others.values():
        yield indices, [_floating(tensors[index]) for index in indices]


def _floating(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, or its integers or truth values as floating-point numbers."""
    return tensor if is_floating_point(tensor) else convert(tensor, torch.float64)


def _join(tensors: list[torch.Tensor]) -> torch.Tensor:
    """The elements of all, one tensor after the other; `stack` is the faster, but wants one shape."""
    shape = tensors[0].shape
    if all([tensor.shape == shape for tensor in tensors]):  # noqa: C419  A list is the faster by half.
        return stack(tensors)
    return flatten(tensors)


def _norms(members: torch.Tensor | list[torch.Tensor]) -> list[float]:
    if isinstance(members, torch.Tensor):
        norms: list[float] = tolist(vector_norm(members, dim=1))
        return norms
    # The squares of the narrow dtypes overflow.
    dtype = torch.float32 if members[0].dtype in _NARROW else None
    return [item(norm) for norm in foreach_norm(members, 2, dtype)]
