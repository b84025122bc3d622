"""Minimum, maximum and norm of tensors on the CPU, small ones of one shape together: there the calls cost most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TWO_PASSES: Final = 1 << 15
"""From this many elements on, `amin` and `amax` are faster than one `aminmax` on the CPU (by 1.6 at 2**20)."""

_SMALL: Final = 1 << 12
"""Up to this many elements, tensors of one shape are stacked and reduced by rows: four and more of them are then faster
(at 128 elements by 4, at 4096 by 2)."""

_FEWEST: Final = 4

_STACK: Final = 1 << 15
"""How many elements a stack has at most: as many as torch reduces in one thread, and so in one order. The norms of the
rows are then, to the bit, those of the tensors alone."""

_NARROW: Final = (torch.float16, torch.bfloat16)


class Extent(NamedTuple):
    """The least and the greatest element of a tensor, and its L2 norm."""

    lowest: float
    highest: float
    norm: float


def extents(tensors: Sequence[torch.Tensor]) -> list[Extent]:
    """The extent of each tensor, in order; a NaN anywhere makes each of its numbers NaN.

    To be called where autograd is off.

    Args:
        tensors: on the CPU, strided, with elements, of floating dtypes.
    """
    found = [Extent(0.0, 0.0, 0.0)] * len(tensors)
    for indices, members in _groups(tensors):
        if isinstance(members, torch.Tensor):
            lowest, highest = torch.amin(members, 1).tolist(), torch.amax(members, 1).tolist()
        else:
            ranges = [_range(member) for member in members]
            lowest, highest = [low for low, _ in ranges], [high for _, high in ranges]
        for index, extent in zip(indices, map(Extent, lowest, highest, _norms(members)), strict=True):
            found[index] = extent
    return found


def l2_norms(tensors: Sequence[torch.Tensor]) -> list[float]:
    """The L2 norm of each tensor, to the bit as `extents` finds it."""
    found = [0.0] * len(tensors)
    for indices, members in _groups(tensors):
        for index, norm in zip(indices, _norms(members), strict=True):
            found[index] = norm
    return found


def _groups(tensors: Sequence[torch.Tensor]) -> Iterator[tuple[list[int], torch.Tensor | list[torch.Tensor]]]:
    """The tensors in groups: their places, and themselves; as the rows of one tensor where that is faster."""
    small: dict[tuple[torch.dtype, torch.Size], list[int]] = {}
    others: dict[torch.dtype, list[int]] = {}
    for index, tensor in enumerate(tensors):
        dtype = tensor.dtype
        if tensor.numel() <= _SMALL and dtype not in _NARROW and tensor.is_contiguous():
            small.setdefault((dtype, tensor.shape), []).append(index)
        else:
            others.setdefault(dtype, []).append(index)
    for (dtype, shape), alike in small.items():
        most = _STACK // max(1, shape.numel())
        for first in range(0, len(alike), most):
            indices = alike[first : first + most]
            if len(indices) < _FEWEST:
                others.setdefault(dtype, []).extend(indices)
            else:
                yield indices, torch.stack([tensors[index] for index in indices]).view(len(indices), -1)
    for indices in others.values():
        yield indices, [tensors[index] for index in indices]


def _range(tensor: torch.Tensor) -> tuple[float, float]:
    if tensor.numel() >= _TWO_PASSES:
        return torch.amin(tensor).item(), torch.amax(tensor).item()
    low, high = torch.aminmax(tensor)
    return low.item(), high.item()


def _norms(members: torch.Tensor | list[torch.Tensor]) -> list[float]:
    if isinstance(members, torch.Tensor):
        norms: list[float] = torch.linalg.vector_norm(members, dim=1).tolist()
        return norms
    # The squares of the narrow dtypes overflow.
    dtype = torch.float32 if members[0].dtype in _NARROW else None
    return [norm.item() for norm in torch._foreach_norm(members, 2, dtype)]
