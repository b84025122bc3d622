"""Selects the settings of an object that can be recorded: numbers, booleans and short strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy_wrapper.events import Setting

_LONGEST: Final = 100
"""The maximum length of a string or tuple that counts as a setting. Longer ones are data."""


def plain_settings(values: Mapping[str, Any]) -> dict[str, Setting]:
    """The settings that JSON can represent. A tuple is stored as `betas.0`, `betas.1`.

    Tensors, such as a learning rate may be, are not read.
    """
    settings: dict[str, Setting] = {}
    for name, value in values.items():
        kind = type(value)
        if kind is float:
            settings[name] = value if value - value == 0 else str(value)
        elif kind is str:
            settings[name] = value if len(value) <= _LONGEST else "str"
        elif kind is bool or value is None or (kind is int and abs(value) < 1 << 53):
            settings[name] = value
        elif kind is tuple and len(value) <= _LONGEST:
            settings.update(plain_settings({f"{name}.{index}": each for index, each in enumerate(value)}))
    return settings
