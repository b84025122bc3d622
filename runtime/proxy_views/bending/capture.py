"""`Capture`, a callback that collects values without changing them, and `Lambda`, which calls a function."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003  Dataclasses look their annotations up.
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from proxy_views.bending.callback import Callback, Place
from proxy_views.bending.errors import BendingError, NotBendableError


class NothingToJoinError(BendingError, ValueError):
    """Captured tensors cannot be joined, or there are none."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"the captured values of {name!r} cannot be joined along the first dimension: {problem}.")


@dataclass
class Capture(Callback):
    """Collects the values of a target over calls, and changes nothing.

    Values are detached and copied. Values recomputed by a checkpoint are not collected again.

    Attributes:
        captured: the tensors for each place, in order.
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
        """The tensors collected at the place `name`, or at the only one, concatenated along the first dimension.

        Raises:
            NothingToJoinError: if there are none, if the name is ambiguous, or if the shapes differ otherwise.
        """
        if name is None:
            if len(self.captured) != 1:
                raise NothingToJoinError("all places", f"there are {len(self.captured)}; name one of them")
            (name,) = self.captured
        tensors = self.captured.get(name, [])
        if not tensors:
            raise NothingToJoinError(name, "nothing was captured")
        try:
            return torch.cat([each.reshape(1) if each.dim() == 0 else each for each in tensors])
        except RuntimeError as error:
            raise NothingToJoinError(name, str(error)) from error

    def clear(self) -> None:
        """Discard all collected tensors."""
        self.captured.clear()


@dataclass
class Lambda(Callback):
    """Applies a function.

    Attributes:
        function: takes a tensor, and returns one of the same dtype.
        keeps_shape: whether the result must have the same shape. For a parameter it always must.
    """

    function: Callable[[torch.Tensor], torch.Tensor]
    keeps_shape: bool = True

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise NotBendableError("function", self.function, "a callable that takes a tensor")

    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:  # noqa: ARG002
        """The result of the function."""
        return self.function(value)
