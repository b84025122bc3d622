"""Callbacks that replace values by zeros.

They fill instead of multiplying. A product would turn infinities into NaN, and integers into floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from proxy_views.bending.callback import Callback, Place
from proxy_views.bending.drawing import DrawnCallback, order, uniform
from proxy_views.bending.errors import NotBendableError, SettingError
from proxy_views.bending.parameter import Number, check_operand, number

if TYPE_CHECKING:
    import torch


@dataclass
class _DrawnMask(DrawnCallback):
    """Keeps a share `p` of all elements, or of the channels along `dim`: the same ones at each call."""

    p: Number = 0.3

    def __init__(self, p: Number = 0.3, *, dim: int | tuple[int, ...] | None = None, seed: int | None = None) -> None:
        """Set up the mask. It is drawn at the first call.

        Raises:
            SettingError: if `p` is not from 0 to 1.
        """
        self.p = check_probability("p", p)
        super().__init__(seed=seed, dim=dim)


@dataclass(init=False)
class Mask(_DrawnMask):
    """Keeps each element with probability `p`, and sets the others to zero: the same ones at each call.

    With `dim`, whole channels are kept or set to zero, and the other dimensions may have any size.
    """

    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:
        """`value` with the other elements set to zero."""
        p = probability("p", self.p)
        return value.masked_fill(self.drawn(value, place, uniform, lambda drawn: drawn >= p, p), 0)


@dataclass(init=False)
class OrderedMask(_DrawnMask):
    """Keeps the share `p` of all elements, or of the channels along `dim`: the first of a random order, drawn once.

    Everything kept for a smaller `p` is also kept for a larger one.
    """

    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:
        """`value` with the other elements set to zero."""
        p = probability("p", self.p)
        dropped = self.drawn(value, place, order, lambda ranks: ranks >= round(p * ranks.numel()), p)
        return value.masked_fill(dropped, 0)


@dataclass
class ThresholdActivation(Callback):
    """Keeps the share `threshold` of the channels along `dim` with the highest means, chosen anew for each sample.

    The mean is over the dimensions after `dim`. Without `dim`, single elements are compared.

    Attributes:
        threshold: the share that is kept, from 0 to 1.
        dim: the dimension of the channels.
        invert: whether the lowest are kept instead.
    """

    works_in_copies: ClassVar[bool] = False
    threshold: Number = 0.5
    dim: int | None = None
    invert: bool = False

    def __post_init__(self) -> None:
        check_probability("threshold", self.threshold)
        if self.dim is not None and (isinstance(self.dim, bool) or not isinstance(self.dim, int)):
            raise NotBendableError("dim", self.dim, "an integer")

    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:
        """`value` with the other channels set to zero."""
        share = probability("threshold", self.threshold)
        if self.dim is None:
            levels, dim = value.detach().reshape(-1), 0
        else:
            if not -value.dim() <= self.dim < value.dim():
                raise SettingError("dim", self.dim, f"a dimension of {place.name!r}, which has {value.dim()},")
            dim = self.dim % value.dim()
            behind = tuple(range(dim + 1, value.dim()))
            levels = value.detach()
            levels = (levels if levels.is_floating_point() else levels.double()).mean(behind) if behind else levels
        ranks = levels.argsort(dim=dim, descending=not self.invert, stable=True).argsort(dim=dim)
        dropped = ranks >= round(share * levels.shape[dim])
        shape = value.shape if self.dim is None else (*levels.shape, *(1 for _ in range(value.dim() - levels.dim())))
        return value.masked_fill(dropped.reshape(shape), 0)


def check_probability(name: str, value: Number) -> Number:
    """`value`, which must be a number from 0 to 1, or an `Expression`.

    Raises:
        NotBendableError: if it is neither.
        SettingError: if it is out of range.
    """
    check_operand(name, value)
    if isinstance(value, (int, float)):
        probability(name, value)
    return value


def probability(name: str, value: Number) -> float:
    """The current value of `value`.

    Raises:
        SettingError: if it is not from 0 to 1.
    """
    found = float(number(value))
    if not 0.0 <= found <= 1.0:
        raise SettingError(name, found, "a number from 0 to 1")
    return found
