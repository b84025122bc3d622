"""Random draws of callbacks: once for each place, from their own generators, so the program's draws do not change."""

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
    """The values drawn for a place and these sizes, and the tensor last derived from them."""

    sizes: tuple[int, ...]
    values: torch.Tensor
    of: object
    made: torch.Tensor


@dataclass(kw_only=True)
class DrawnCallback(Callback):
    """A callback that draws random values at its first call in a place, and reuses them from then on.

    Attributes:
        seed: the values depend only on it and on the name of the place. If not given, a random seed is chosen.
        dim: the dimensions along which values are drawn. They are constant along the others. None for all dimensions.
    """

    works_in_copies = False
    seed: int | None = None
    dim: int | tuple[int, ...] | None = None
    _drawn: dict[str, _Drawn] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.seed is None:
            self.seed = secrets.randbelow(_SEEDS)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise NotBendableError("seed", self.seed, "an integer")
        if not 0 <= self.seed < _SEEDS:
            raise SettingError("seed", self.seed, "a number from 0 to 2**63 - 1")
        if isinstance(self.dim, list):
            self.dim = tuple(self.dim)
        dims = self.dim if isinstance(self.dim, tuple) else () if self.dim is None else (self.dim,)
        if any(isinstance(each, bool) or not isinstance(each, int) for each in dims):
            raise NotBendableError("dim", self.dim, "an integer, or several")

    def reset(self) -> None:
        """Discard the drawn values, so that another shape is accepted. The same seed draws the same values again."""
        self._drawn.clear()

    def drawn(
        self,
        value: torch.Tensor,
        place: Place,
        draw: Callable[[tuple[int, ...], torch.Generator], torch.Tensor],
        derive: Callable[[torch.Tensor], torch.Tensor],
        of: object,
    ) -> torch.Tensor:
        """The result of `derive` for the values that `draw` drew in `place`, in a shape that broadcasts to `value`.

        The computation is not observed, so the result is a constant in a graph. It is computed once for each `of`.

        Raises:
            OtherShapeError: if the values were drawn for another shape.
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
    """Uniform numbers in [0, 1), float64."""
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def normal(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Standard normal numbers, float32."""
    return torch.randn(shape, generator=generator, dtype=torch.float32)


def order(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """A random permutation of the integers from 0 on, int64."""
    count = 1
    for size in shape:
        count *= size
    return torch.randperm(count, generator=generator).reshape(shape)
