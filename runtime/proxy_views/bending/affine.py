"""Callbacks that scale and shift values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from proxy_views.bending.callback import Callback, Place
from proxy_views.bending.parameter import Number, check_operand, number

if TYPE_CHECKING:
    import torch


@dataclass
class Bias(Callback):
    """Adds `bias`."""

    works_in_copies: ClassVar[bool] = False
    bias: Number = 0.0

    def __post_init__(self) -> None:
        check_operand("bias", self.bias)

    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:  # noqa: ARG002
        """The sum."""
        return value + number(self.bias)


@dataclass
class Scale(Callback):
    """Multiplies by `scale`."""

    works_in_copies: ClassVar[bool] = False
    scale: Number = 1.0

    def __post_init__(self) -> None:
        check_operand("scale", self.scale)

    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:  # noqa: ARG002
        """The product."""
        return value * number(self.scale)


@dataclass
class Affine(Callback):
    """Multiplies by `scale`, then adds `bias`."""

    works_in_copies: ClassVar[bool] = False
    scale: Number = 1.0
    bias: Number = 0.0

    def __post_init__(self) -> None:
        check_operand("scale", self.scale)
        check_operand("bias", self.bias)

    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:  # noqa: ARG002
        """`value * scale + bias`."""
        return value * number(self.scale) + number(self.bias)
