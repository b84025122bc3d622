"""Callbacks that use random values and permutations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy_views.bending.drawing import DrawnCallback, normal, order
from proxy_views.bending.errors import NotBendableError, SettingError
from proxy_views.bending.parameter import Number, check_operand, number

if TYPE_CHECKING:
    import torch

    from proxy_views.bending.callback import Place


@dataclass
class Normal(DrawnCallback):
    """Adds normal noise with standard deviation `std`, drawn once. With `op="mul"`, multiplies by it."""

    std: Number = 0.3
    op: str = "add"

    def __init__(
        self,
        std: Number = 0.3,
        *,
        op: str = "add",
        dim: int | tuple[int, ...] | None = None,
        seed: int | None = None,
    ) -> None:
        """Set up the noise. It is drawn at the first call.

        Raises:
            SettingError: if `std` is negative, or `op` neither "add" nor "mul".
        """
        check_operand("std", std)
        if isinstance(std, (int, float)) and std < 0:
            raise SettingError("std", std, "a number not below 0")
        if op not in ("add", "mul"):
            raise SettingError("op", op, '"add" or "mul"')
        self.std, self.op = std, op
        super().__init__(seed=seed, dim=dim)

    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:
        """The sum or product with the noise."""
        noise = self.drawn(value, place, normal, lambda drawn: drawn.to(value.dtype), value.dtype) * number(self.std)
        return value + noise if self.op == "add" else value * noise


@dataclass
class Permute(DrawnCallback):
    """Permutes `value` along `dim`, in a random order that is drawn once."""

    def __init__(self, dim: int, *, seed: int | None = None) -> None:
        """Set up the permutation. It is drawn at the first call.

        Raises:
            NotBendableError: if `dim` is not an integer.
        """
        if isinstance(dim, bool) or not isinstance(dim, int):
            raise NotBendableError("dim", dim, "an integer")
        super().__init__(seed=seed, dim=dim)

    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:
        """The permuted values."""
        assert isinstance(self.dim, int)
        places = self.drawn(value, place, order, lambda drawn: drawn, None)
        return value.index_select(self.dim, places.reshape(-1))
