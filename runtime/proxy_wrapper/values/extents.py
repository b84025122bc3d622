"""Minimum, maximum, norm, non-finite count and fingerprint of tensors on the CPU: in one pass, or by torch's functions.

Both follow the same rules. A zero has no sign, because its sign would depend on the order of comparisons. For single
precision and below, the norm is infinite if the sum of squares overflows, as in torch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import torch

from proxy_wrapper.values import fingerprint
from proxy_wrapper.values.one_pass import KINDS, OnePass, item_of, load
from proxy_wrapper.values.torch_functions import (
    aminmax,
    contiguous,
    convert,
    foreach_norm,
    is_contiguous,
    is_floating_point,
    isfinite,
    item,
    numel,
    resolve_neg,
    split,
    stack,
    total,
    view,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy_wrapper.values.one_pass import Extent

library: OnePass | None = load()
"""The library that reads tensors; None if it was not compiled."""

_NARROW: Final = (torch.float16, torch.bfloat16)

_PIECE: Final = 1 << 14

_LARGEST_FLOAT: Final = torch.finfo(torch.float32).max

_QUICK: Final = 1 << 15
"""Up to this many elements, torch sums in one thread, and the overhead of its call dominates. Beyond, its sum is as
fast as the library's count."""


def is_compiled() -> bool:
    """Whether tensors are read by the library, which is faster."""
    return library is not None


def extents(tensors: Sequence[torch.Tensor]) -> Iterable[Extent]:
    """The extent of each tensor, in order.

    Like everything here, call it where no mode is active and autograd is off.

    Args:
        tensors: strided, non-empty tensors on the CPU, of floating dtypes that torch reduces, integers or booleans.
    """
    if library is None:
        return map(_by_torch, tensors)
    laid_out = [_laid_out(tensor) for tensor in tensors]
    return library.extents(list(map(item_of, laid_out)))


def fingerprint_of(parts: Sequence[torch.Tensor]) -> int:
    """The fingerprint of a tensor stored in these parts: strided CPU tensors of any dtype."""
    if library is None:
        return fingerprint.combined([fingerprint.fingerprint(part) for part in parts])
    # An empty part has fingerprint 0; there is nothing to read.
    return fingerprint.combined(
        [library.fingerprint(fingerprint.as_real_bytes(part)) if numel(part) else 0 for part in parts]
    )


def count_nonfinite(tensor: torch.Tensor) -> int:
    """The number of NaN and infinite elements of a CPU tensor, of a real or complex dtype that torch can sum.

    A sum is finite unless an element is not, or the sum overflows. Only then are the elements checked.
    """
    if is_quickly_counted(tensor):
        return library.count_nonfinite(tensor)  # type: ignore[union-attr]
    found = item(total(tensor, dtype=torch.float32) if tensor.dtype in _NARROW else total(tensor))
    if found - found == 0:  # Neither NaN nor infinite, in both parts of a complex number.
        return 0
    return _count_nonfinite(tensor)


def is_quickly_counted(tensor: torch.Tensor) -> bool:
    """Whether the library is the fastest way to count the non-finite elements of a CPU tensor."""
    return library is not None and tensor.dtype in KINDS and numel(tensor) <= _QUICK and is_contiguous(tensor)


def _count_nonfinite(tensor: torch.Tensor) -> int:
    return int(numel(tensor) - item(total(isfinite(tensor))))


def _laid_out(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with the same elements in the memory layout that the library needs; `tensor` itself if possible."""
    return contiguous(resolve_neg(tensor))


def _by_torch(tensor: torch.Tensor) -> Extent:
    tensor = _laid_out(tensor)
    values = view(tensor if is_floating_point(tensor) else convert(tensor, torch.float64), (-1,))
    low, high = map(item, aminmax(values))  # Faster than `amin` and `amax`, which read the memory twice.
    nonfinite = 0
    if not (math.isfinite(low) and math.isfinite(high)):
        nonfinite = _count_nonfinite(values)
    return low + 0.0, high + 0.0, _norm(values), nonfinite, fingerprint.fingerprint(tensor)


def _norm(values: torch.Tensor) -> float:
    """The L2 norm of a flat tensor, from those of its pieces, because torch loses digits when it sums in float32."""
    squares_dtype = torch.float32 if values.dtype in _NARROW else values.dtype
    norms = list(foreach_norm(split(values, _PIECE), 2, squares_dtype))
    if len(norms) > 1:
        norms = [convert(foreach_norm((convert(stack(norms), torch.float64),), 2)[0], squares_dtype)]
    norm: float = item(norms[0])
    is_too_large = squares_dtype is torch.float32 and numel(values) > 1 and norm * norm > _LARGEST_FLOAT
    return math.inf if is_too_large else norm
