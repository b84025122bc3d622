"""What is true of a tensor's values, computed without torch's reductions: by Python and NumPy, from its bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from proxy_wrapper.events import as_number
from tests.proxy_wrapper.truth.expected_bits import expected_bits

if TYPE_CHECKING:
    from proxy_wrapper.events import Statistics

_UNIT: dict[torch.dtype, float] = {torch.float64: 2.0**-53, torch.complex128: 2.0**-53}
"""Half the distance from 1 to the next number, in the dtype that squares are added up in: else float32's."""

_FLUSHED: dict[torch.dtype, float] = {torch.float64: 2.0**-1022, torch.complex128: 2.0**-1022}
"""What the square of a small number loses at most where it underflows: float32's least normal number otherwise."""


@dataclass(frozen=True)
class Values:
    """A tensor's values at one moment.

    `parts` are the bytes of its elements in order, those of the indices first if it is sparse. `minimum`, `maximum` and
    `nonfinite` are as in `events.Statistics`. The norm lies between `least_norm` and `greatest_norm`, in whatever order
    the squares are added up.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    parts: tuple[bytes, ...]
    minimum: float | None
    maximum: float | None
    least_norm: float
    greatest_norm: float
    nonfinite: int

    @property
    def identity(self) -> tuple[str, tuple[int, ...], tuple[bytes, ...]]:
        """What two tensors of equal values have in common."""
        return (str(self.dtype), self.shape, self.parts)

    @property
    def bits(self) -> str:
        """The fingerprint that a trace must have."""
        return expected_bits(*self.parts)


def values_of(tensor: torch.Tensor) -> Values:
    """The values of a tensor on the CPU; those of a sparse one are what it holds after coalescing."""
    tensor = tensor.detach()
    shape = tuple(tensor.shape)
    parts: tuple[bytes, ...] = ()
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce()
        parts = (_bytes_of(tensor.indices()),)
        tensor = tensor.values()
    tensor = tensor.resolve_conj().resolve_neg().contiguous()
    parts = (*parts, _bytes_of(tensor))
    elements = _elements(tensor)
    if not elements.size:
        return Values(tensor.dtype, shape, parts, None, None, 0.0, 0.0, 0)
    minimum, maximum = (math.nan, math.nan) if np.isnan(elements).any() else (elements.min(), elements.max())
    least, greatest = _bounds_of_norm(elements, tensor.dtype)
    nonfinite = int(elements.size - np.isfinite(elements).sum())
    return Values(tensor.dtype, shape, parts, float(minimum), float(maximum), least, greatest, nonfinite)


def _bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def _elements(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """All elements, real and imaginary parts apart, in a dtype of NumPy that holds them exactly."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dtype.is_floating_point and tensor.dtype is not torch.float64:
        tensor = tensor.to(torch.float64)
    found: np.ndarray[Any, Any] = tensor.reshape(-1).numpy()
    return found


def _bounds_of_norm(elements: np.ndarray[Any, Any], dtype: torch.dtype) -> tuple[float, float]:
    """The least and the greatest norm that an honest sum of the squares may come to.

    The terms are not negative. So, in whatever order n of them are added up, each of the n - 1 additions, of the n
    squarings and of the conversions puts a relative error of at most u on what has gone through it, and no term goes
    through more than n + 4 of them: the sum is off by a factor between (1 - u) ** (n + 4) and its inverse, and by what
    the squares lose that underflow. The root makes the factor no larger, and rounds once more.
    """
    if np.isnan(elements).any():
        return math.nan, math.nan
    if np.isinf(elements).any():
        return math.inf, math.inf
    unit, flushed = _UNIT.get(dtype, 2.0**-24), _FLUSHED.get(dtype, 2.0**-126)
    largest = float(np.abs(elements.astype(np.float64)).max())
    if not largest:
        return 0.0, 0.0
    count = elements.size
    scaled = elements.astype(np.float64) / largest  # So that squares in float64 neither overflow nor underflow.
    total = math.fsum(scaled * scaled)
    slack = (1.0 - unit) ** -(count + 4)
    lost = count * flushed / largest / largest
    least = largest * math.sqrt(max(0.0, total / slack - lost)) / (1 + 2 * unit)
    greatest = largest * math.sqrt(total * slack + lost) * (1 + 2 * unit)
    overflow = math.sqrt(np.finfo(np.float64).max if unit < 2.0**-50 else float(np.finfo(np.float32).max))
    return least, math.inf if greatest >= overflow * (1 - 2 * unit) else greatest


def has_nonzero(values: Values | None) -> bool:
    """Whether there are values, and any of them is not zero."""
    return values is not None and values.greatest_norm != 0.0


def disagreement(true: Values, said: Statistics) -> str:
    """In what `said` is not true of these values, in words; "" if it is."""
    for name, expected, found in (
        ("minimum", true.minimum, said.minimum),
        ("maximum", true.maximum, said.maximum),
    ):
        if found != (None if expected is None else as_number(expected)):
            return f"{name} {found} where it is {expected}"
    if said.bits != true.bits:
        return f"bits {said.bits} where they are {true.bits}"
    if said.nonfinite != true.nonfinite:
        return f"{said.nonfinite} non-finite elements where there are {true.nonfinite}"
    norm = math.nan if said.norm is None else float(said.norm)
    if math.isnan(true.least_norm):
        return "" if math.isnan(norm) else f"norm {norm} where it is nan"
    if not true.least_norm <= norm <= true.greatest_norm:
        return f"norm {norm} where it is between {true.least_norm} and {true.greatest_norm}"
    return ""
