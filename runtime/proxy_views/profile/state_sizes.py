"""The bytes of a model's parameters and buffers, by module, and which memory is theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

    from proxy_views.profile.storages import Storages


class StateSizes:
    """Knows what a model had at any time that it was looked at.

    Attributes:
        parameters: the storages of parameters.
        buffers: those of buffers.
    """

    def __init__(self) -> None:
        self.parameters: set[int] = set()
        self.buffers: set[int] = set()
        self._of_parameters: dict[str, dict[tuple[int, int], int]] = {}
        self._of_buffers: dict[str, dict[tuple[int, int], int]] = {}

    def note(self, model: nn.Module, storages: Storages) -> None:
        """Note what `model` has now."""
        self._of_parameters.clear()
        self._of_buffers.clear()
        for name, module in model.named_modules():
            prefixes = _prefixes(name)
            for tensors, noted, by_module in (
                (module.parameters(recurse=False), self.parameters, self._of_parameters),
                (module.buffers(recurse=False), self.buffers, self._of_buffers),
            ):
                data = storages.of_all(tensors)
                noted.update(each.storage for each in data)
                for prefix in prefixes:
                    by_module.setdefault(prefix, {}).update({each.address: each.size for each in data})

    def of_parameters(self, name: str) -> int:
        """The bytes of the parameters of the module of that name, and of those inside it; tied ones once."""
        return sum(self._of_parameters.get(name, {}).values())

    def of_buffers(self, name: str) -> int:
        """The same of its buffers."""
        return sum(self._of_buffers.get(name, {}).values())


def _prefixes(name: str) -> list[str]:
    """The names of a module and of those that it is in: "a.b" is in "a" and in "", the model."""
    parts = name.split(".")
    return ["", *(".".join(parts[:count]) for count in range(1, len(parts) + 1) if name)]
