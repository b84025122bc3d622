"""What callbacks draw: once for each place, from their own generators, so that the program's draws stay the same."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from proxy_views.bending.callback import Callback, Place
from proxy_views.bending.errors import NotBendableError, OtherShapeError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

_SEEDS: Final = 2**63


class _Drawn(NamedTuple):
    """What was drawn in a place, for these sizes, and what was made of it last."""

    sizes: tuple[int, ...]
    values: torch.Tensor
    of: object
    made: torch.Tensor


@dataclass(kw_only=True)
class DrawnCallback(Callback):
    """A callback that draws something at its first call in a place, and uses it from then on.

    Attributes:
        seed: what is drawn depends on it and on the name of the place alone; a new one each time if not given.
        dim: the dimensions along which something is drawn; along the others it is the same. None for all of them.
    """

    works_in_copies = False
    seed: int | None = None
    dim: int | tuple[int, ...] | None = None
    _drawn: dict[str, _Drawn] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.seed is None:
            self.seed = secrets.randbelow(_SEEDS)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise NotBendableError("seed", self.seed, "a whole number")
        if not 0 <= self.seed < _SEEDS:
            raise SettingError("seed", self.seed, "a number from 0 to 2**63 - 1")
        if isinstance(self.dim, list):
            self.dim = tuple(self.dim)
        dims = self.dim if isinstance(self.dim, tuple) else () if self.dim is None else (self.dim,)
        if any(isinstance(each, bool) or not isinstance(each, int) for each in dims):
            raise NotBendableError("dim", self.dim, "a whole number, or several")

    def reset(self) -> None:
        """Forget what was drawn, so that another shape may come. The same seed draws the same again."""
        self._drawn.clear()

    def drawn(
        self,
        value: torch.Tensor,
        place: Place,
        draw: Callable[[tuple[int, ...], torch.Generator], torch.Tensor],
        derive: Callable[[torch.Tensor], torch.Tensor],
        of: object,
    ) -> torch.Tensor:
        """What `derive` makes of what `draw` has drawn in `place`, in a shape that broadcasts to that of `value`.

        Nobody sees how it is made; in a graph it is a constant. It is made once for each `of`.

        Raises:
            OtherShapeError: if it was drawn for another shape.
        """
        with torch._C.DisableTorchFunction():
            shape = self._shape(value, place)
            sizes = tuple(shape[each] for each in self._dims(value.dim()))
            found = self._drawn.get(place.name)
            if found is not None and found.sizes != sizes:
                raise OtherShapeError(type(self).__name__, place.name, found.sizes, sizes)
            if found is None or (found.of, found.made.device, found.made.dim()) != (of, value.device, value.dim()):
                with _disable_current_modes():
                    generator = torch.Generator().manual_seed(self._seed_at(place))
                    values = draw(shape, generator) if found is None else found.values
                    made = derive(values).reshape(shape).to(torch.device("cpu") if value.is_meta else value.device)
                found = self._drawn[place.name] = _Drawn(sizes, values, of, made)
            if isinstance(value, FakeTensor):
                fake: torch.Tensor = value.fake_mode.from_tensor(found.made)
                return fake
            return found.made.to("meta") if value.is_meta else found.made

    def _dims(self, count: int) -> tuple[int, ...]:
        if self.dim is None:
            return tuple(range(count))
        return self.dim if isinstance(self.dim, tuple) else (self.dim,)

    def _shape(self, value: torch.Tensor, place: Place) -> tuple[int, ...]:
        if self.dim is None:
            return tuple(value.shape)
        shape = [1] * value.dim()
        for each in self._dims(value.dim()):
            if not -value.dim() <= each < value.dim():
                raise SettingError("dim", self.dim, f"a dimension of {place.name!r}, which has {value.dim()},")
            shape[each] = value.shape[each]
        return tuple(shape)

    def _seed_at(self, place: Place) -> int:
        digest = hashlib.sha256(f"{self.seed} {place.name}".encode()).digest()
        return int.from_bytes(digest[:8], "little") % _SEEDS


def uniform(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Numbers from 0 to 1, the latter left out."""
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def normal(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Numbers of the standard normal distribution."""
    return torch.randn(shape, generator=generator, dtype=torch.float32)


def order(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """The numbers from 0 on, each once, in random order."""
    count = 1
    for size in shape:
        count *= size
    return torch.randperm(count, generator=generator).reshape(shape)
