"""What is done to a value that is bent: the base of all callbacks, and rows of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from proxy_views.bending.errors import NotBendableError
from proxy_views.bending.parameter import BendingParameter, Expression

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch


class Place(NamedTuple):
    """Where a value is bent.

    Attributes:
        name: of the module, parameter or node; with "[1]" or "['key']" behind it for a part of what that gave.
        is_recomputed: whether an activation checkpoint computes it again, in the backward pass.
    """

    name: str
    is_recomputed: bool


class Callback(ABC):
    """Something done to each value of a target. Derive from it for one of your own; a dataclass can be compared.

    Attributes:
        works_in_copies: whether `bend` may write into what it is given; it is given a copy where that is a parameter.
        keeps_shape: whether it must give back a tensor of the shape that it was given.
    """

    works_in_copies: ClassVar[bool] = True
    keeps_shape: bool = True

    @abstractmethod
    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:
        """What the program gets in place of `value`: a tensor of the same dtype.

        Random numbers must come from a generator of the callback's own, and be the same when a checkpoint recomputes.
        """

    def parameters(self) -> Iterator[BendingParameter]:
        """The bending parameters that it uses."""
        for each in fields(self) if hasattr(self, "__dataclass_fields__") else ():  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if isinstance(value, Expression):
                yield from value.parameters()

    def __rshift__(self, other: Callback) -> Chain:
        if not isinstance(other, Callback):
            raise NotBendableError(">>", other, "a callback")
        return Chain((*self.row(), *other.row()))

    def row(self) -> tuple[Callback, ...]:
        """The callbacks that it consists of."""
        return (self,)


@dataclass(repr=False)
class Chain(Callback):
    """Several callbacks, each of which is given what the one before it has given: what `a >> b` makes."""

    works_in_copies: ClassVar[bool] = False
    callbacks: tuple[Callback, ...]

    def __post_init__(self) -> None:
        self.callbacks = tuple(self.callbacks)
        for each in self.callbacks:
            if not isinstance(each, Callback):
                raise NotBendableError("Chain", each, "a callback")
        self.keeps_shape = all(each.keeps_shape for each in self.callbacks)

    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:
        """What the last of them gives."""
        for each in self.callbacks:
            value = each.bend(value, place)
        return value

    def parameters(self) -> Iterator[BendingParameter]:
        """The bending parameters of all of them."""
        for each in self.callbacks:
            yield from each.parameters()

    def row(self) -> tuple[Callback, ...]:
        """The callbacks."""
        return self.callbacks

    def __repr__(self) -> str:
        return " >> ".join(map(repr, self.callbacks))
