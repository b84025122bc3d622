"""A callback that changes nothing, and gathers what it is given; and one for a function of the program's."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003  Dataclasses look their annotations up.
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from proxy_views.bending.callback import Callback, Place
from proxy_views.bending.errors import BendingError, NotBendableError


class NothingToJoinError(BendingError, ValueError):
    """Captured tensors that do not fit together, or none."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"what was captured of {name!r} cannot be joined along the first dimension: {problem}.")


@dataclass
class Capture(Callback):
    """Gathers what a target gives, over calls, and changes nothing.

    What is gathered is detached and copied. What a checkpoint computes again is not gathered again.

    Attributes:
        captured: for each place the tensors, in order.
    """

    works_in_copies: ClassVar[bool] = False
    captured: dict[str, list[torch.Tensor]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:
        """`value` itself."""
        if not place.is_recomputed:
            with torch._C.DisableTorchFunction():
                self.captured.setdefault(place.name, []).append(value.detach().clone())
        return value

    def joined(self, name: str | None = None) -> torch.Tensor:
        """What was gathered of the place `name`, of the only one if it is not given, joined along the first dimension.

        Raises:
            NothingToJoinError: if there is nothing, or if the shapes differ in another dimension.
        """
        if name is None:
            if len(self.captured) != 1:
                raise NothingToJoinError("all places", f"there are {len(self.captured)} of them: give the name of one")
            (name,) = self.captured
        tensors = self.captured.get(name, [])
        if not tensors:
            raise NothingToJoinError(name, "there is nothing")
        try:
            return torch.cat([each.reshape(1) if each.dim() == 0 else each for each in tensors])
        except RuntimeError as error:
            raise NothingToJoinError(name, str(error)) from error

    def clear(self) -> None:
        """Forget all of it."""
        self.captured.clear()


@dataclass
class Lambda(Callback):
    """Gives what a function makes of a tensor.

    Attributes:
        function: takes a tensor, and gives one of the same dtype.
        keeps_shape: whether it must be of the same shape. Of what stands for a parameter it must in any case.
    """

    function: Callable[[torch.Tensor], torch.Tensor]
    keeps_shape: bool = True

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise NotBendableError("function", self.function, "something that can be called with a tensor")

    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:  # noqa: ARG002
        """What the function gives."""
        return self.function(value)
