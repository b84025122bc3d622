"""The bytes of a model's parameters and buffers, by module, and their storages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn

    from proxy_views.profile.storages import Data, Storages


class StateSizes:
    """Records the state of a model each time that it is examined.

    Attributes:
        parameters: the storages of parameters.
        buffers: the storages of buffers.
    """

    def __init__(self) -> None:
        self.parameters: set[int] = set()
        self.buffers: set[int] = set()
        self._of_parameters: dict[str, tuple[Data, ...]] = {}
        self._of_buffers: dict[str, tuple[Data, ...]] = {}

    def note(self, modules: Iterable[tuple[str, nn.Module]], storages: Storages) -> None:
        """Note the present state of a model's modules, given with their qualified names."""
        self._of_parameters.clear()
        self._of_buffers.clear()
        for name, module in modules:
            for tensors, noted, by_module in (
                (module._parameters, self.parameters, self._of_parameters),
                (module._buffers, self.buffers, self._of_buffers),
            ):
                if tensors:
                    data = by_module[name] = storages.of_all(tensors.values())
                    noted.update(each.storage for each in data)

    def of_parameters(self, name: str) -> int:
        """The bytes of the parameters of the module `name` and of those inside it; tied ones count once."""
        return _size_inside(name, self._of_parameters)

    def of_buffers(self, name: str) -> int:
        """The bytes of its buffers, likewise."""
        return _size_inside(name, self._of_buffers)


def _size_inside(name: str, by_module: dict[str, tuple[Data, ...]]) -> int:
    within = f"{name}." if name else ""
    sizes: dict[tuple[int, int], int] = {}
    for module, data in by_module.items():
        if module == name or module.startswith(within):
            sizes.update({each.address: each.size for each in data})
    return sum(sizes.values())
