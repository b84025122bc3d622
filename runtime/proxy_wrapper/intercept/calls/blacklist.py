"""Lists the modules that are never looked into."""

from __future__ import annotations

from typing import Final

from torch import nn

_OF_TORCH: Final[tuple[type[nn.Module], ...]] = (
    nn.MultiheadAttention,
    nn.TransformerEncoder,
    nn.TransformerEncoderLayer,
)
"""Their `forward` asks `has_torch_function` and, if so, uses another kernel: results differ in the last bits."""


class Blacklist:
    """Module types during whose calls no function mode may be active, because they would notice it."""

    def __init__(self) -> None:
        self._types = _OF_TORCH

    def add(self, module_type: type[nn.Module]) -> None:
        """Put `module_type` and all its subclasses on the list."""
        if module_type not in self._types:
            self._types = (*self._types, module_type)

    def __contains__(self, module: object) -> bool:
        return isinstance(module, self._types)
