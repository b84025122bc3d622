"""Versions of a model: its weights and the values of bending parameters, stored under names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import torch

from proxy_views.bending.bent_calls import BentCalls
from proxy_views.bending.configuration import BendingConfig
from proxy_views.bending.errors import NotBendableError, SettingError, VersionError
from proxy_views.bending.parameter import BendingParameter, check_number
from proxy_wrapper.proxy import change_of_thread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn
    from typing_extensions import Self

ORIGINAL: Final = "original"
"""The name of the initial version."""


class _Version(NamedTuple):
    weights: dict[str, torch.Tensor]
    values: dict[str, float]


class Versions:
    """Stores versions of the weights of a model, and loads them into it.

        versions = Versions(model)
        with bend(model, "conv.weight", Scale(2.0)):
            versions.write("twice")
        versions.set_version("twice")             # the model's own weights are those now
        versions.interpolate(1.0, twice=1.0)      # half of each
        versions.set_version("original")          # exactly as they were

    Unlike bends, a version changes the weights themselves, which are saved and which an optimizer continues from.

    Attributes:
        current: the name of the version set last; None for a mixture.
    """

    def __init__(self, model: nn.Module, parameters: BendingConfig | Iterable[BendingParameter] = ()) -> None:
        """Store the current weights as "original".

        Args:
            model: the model.
            parameters: the bending parameters whose values are part of a version, or a configuration that has them.

        Raises:
            NotBendableError: if something is of the wrong type.
        """
        if not isinstance(model, torch.nn.Module):
            raise NotBendableError("model", model, "an `nn.Module`")
        given = parameters.parameters().values() if isinstance(parameters, BendingConfig) else parameters
        self._model = model
        self._parameters = {each.name: each for each in given}
        self._versions = {ORIGINAL: self._as_it_is()}
        self.current: str | None = ORIGINAL

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all versions, oldest first."""
        return tuple(self._versions)

    def write(self, name: str, *, force: bool = False) -> None:
        """Store the weights that the model currently uses, with this thread's bends applied to them.

        Remove those bends before setting the version later. Otherwise they would be applied to it again.

        Args:
            name: the name of the version.
            force: whether to replace an existing version of that name.

        Raises:
            NotBendableError: if `name` is not a Python identifier.
            VersionError: if the version exists and `force` is False, or if it is "original".
        """
        if not isinstance(name, str) or not name.isidentifier():
            raise NotBendableError("name", name, "an identifier")
        if name == ORIGINAL or (name in self._versions and not force):
            advice = "it cannot be replaced." if name == ORIGINAL else "use `force=True` to replace it."
            raise VersionError(f"a version {name!r} exists already; {advice}")
        self._versions[name] = self._as_it_is()

    def set_version(self, name: str = ORIGINAL) -> Restored:
        """Load the weights of a version into the model, and its values into the bending parameters.

        Returns:
            A context manager that restores the previous weights and values when it exits.

        Raises:
            VersionError: if there is no such version, or if its weights no longer fit the model.
        """
        return self._put(self._version(name), name)

    def interpolate(self, original: float = 0.0, /, **weights: float) -> Restored:
        """Load a mixture of versions into the model: the mean of their weights and values, weighted by these numbers.

        Args:
            original: the weight of the version "original".
            weights: the weights of other versions, by name.

        Returns:
            The same as `set_version`.

        Raises:
            VersionError: if there is no such version, or if its weights no longer fit the model.
            SettingError: if the numbers add up to zero.
        """
        given = {name: check_number(name, each) for name, each in {ORIGINAL: original, **weights}.items()}
        shares = {name: each for name, each in given.items() if each}
        total = sum(shares.values())
        if not shares or total == 0:
            raise SettingError("weights", given, "at least one, with a non-zero sum")
        mixed = [(self._version(name), each / total) for name, each in shares.items()]
        (first, share), *rest = mixed
        if not rest:
            return self._put(first, next(iter(shares)))
        found = {}
        for name, tensor in first.weights.items():
            others = [(version.weights.get(name), each) for version, each in rest]
            if not (tensor.is_floating_point() or tensor.is_complex()) or any(each is None for each, _ in others):
                found[name] = tensor
                continue
            found[name] = sum((each * part for each, part in others), tensor * share)  # type: ignore[operator,assignment]
        values = {
            name: sum((version.values[name] * each for version, each in rest), value * share)
            for name, value in first.values.items()
        }
        return self._put(_Version(found, values), None)

    def _version(self, name: str) -> _Version:
        if name not in self._versions:
            raise VersionError(f"there is no version {name!r}, only {', '.join(map(repr, self._versions))}.")
        return self._versions[name]

    def _as_it_is(self) -> _Version:
        calls = change_of_thread()
        weights = {}
        with torch.no_grad():
            for name, parameter in self._model.named_parameters():
                bent = calls.bent_parameter(parameter) if isinstance(calls, BentCalls) else parameter
                weights[name] = bent.detach().clone()
        return _Version(weights, {name: each.value for name, each in self._parameters.items()})

    def _put(self, version: _Version, name: str | None) -> Restored:
        present = dict(self._model.named_parameters())
        for key in sorted({*present, *version.weights}):
            here, kept = present.get(key), version.weights.get(key)
            if here is None or kept is None or here.shape != kept.shape or here.dtype != kept.dtype:
                raise VersionError(
                    f"the model has changed since: its parameter {key!r} is new, is gone, or has another shape or "
                    "dtype. Create new `Versions` for it."
                )
        restored = Restored(
            self, {key: each.detach().clone() for key, each in present.items()},
            {key: each.value for key, each in self._parameters.items()}, self.current,
        )  # fmt: skip
        self.put(version.weights, version.values, name)
        return restored

    def put(self, weights: dict[str, torch.Tensor], values: dict[str, float], name: str | None) -> None:
        """Write weights into the model, by name, and values into the bending parameters."""
        present = dict(self._model.named_parameters())
        with torch.no_grad():
            for key, each in weights.items():
                present[key].copy_(each)
        for key, value in values.items():
            self._parameters[key].update(value)
        self.current = name


class Restored:
    """Restores the weights and values replaced by a version at the end of a `with` block."""

    def __init__(
        self, versions: Versions, weights: dict[str, torch.Tensor], values: dict[str, float], name: str | None
    ) -> None:
        self._versions = versions
        self._weights, self._values, self._name = weights, values, name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._versions.put(self._weights, self._values, self._name)
