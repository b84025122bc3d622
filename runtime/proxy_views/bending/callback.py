"""The base class of all callbacks, which change bent values, and chains of them."""

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
        name: the name of the module, parameter or node, followed by "[1]" or "['key']" for a part of its output.
        is_recomputed: whether an activation checkpoint is recomputing it in the backward pass.
    """

    name: str
    is_recomputed: bool


class Callback(ABC):
    """Changes each value of a target. Derive your own callbacks from it. A dataclass can be compared.

    Attributes:
        works_in_copies: whether `bend` may write into its argument. It then gets a copy of a parameter.
        keeps_shape: whether `bend` must return a tensor of the same shape.
    """

    works_in_copies: ClassVar[bool] = True
    keeps_shape: bool = True

    @abstractmethod
    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:
        """The replacement for `value`: a tensor of the same dtype.

        Random numbers must come from the callback's own generator, and be the same when a checkpoint recomputes.
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
        """The callbacks of which this one consists."""
        return (self,)


@dataclass(repr=False)
class Chain(Callback):
    """Several callbacks, each applied to the result of the one before: the result of `a >> b`."""

    works_in_copies: ClassVar[bool] = False
    callbacks: tuple[Callback, ...]

    def __post_init__(self) -> None:
        self.callbacks = tuple(self.callbacks)
        for each in self.callbacks:
            if not isinstance(each, Callback):
                raise NotBendableError("Chain", each, "a callback")
        self.keeps_shape = all(each.keeps_shape for each in self.callbacks)

    def bend(self, value: torch.Tensor, place: Place) -> torch.Tensor:
        """The result of the last callback."""
        for each in self.callbacks:
            value = each.bend(value, place)
        return value

    def parameters(self) -> Iterator[BendingParameter]:
        """The bending parameters of all callbacks."""
        for each in self.callbacks:
            yield from each.parameters()

    def row(self) -> tuple[Callback, ...]:
        """The callbacks."""
        return self.callbacks

    def __repr__(self) -> str:
        return " >> ".join(map(repr, self.callbacks))
