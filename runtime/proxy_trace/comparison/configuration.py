"""Compares the torch settings of two runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.events import Configuration, Setting

_MOST: Final = 1 << 12


class SettingDifference(msgspec.Struct, frozen=True):
    """A setting that differs between the runs. `values` are in words; `step` is the first step where they differ."""

    name: str
    values: list[str]
    step: int

    def __str__(self) -> str:
        since = "" if self.step <= 0 else f", from step {self.step:,} on"
        return f"{self.name}: {' | '.join(self.values)}{since}"


class SettingsComparer:
    """Follows the settings of two runs. A setting that one run does not record is not compared."""

    def __init__(self) -> None:
        self._settings: tuple[dict[str, Setting], dict[str, Setting]] = ({}, {})
        self._told: set[str] = set()
        self._has_changed = False

    def note(self, number: int, event: Configuration) -> None:
        """Store the settings of the first run (0) or the second (1) from here on."""
        self._has_changed = True
        settings = self._settings[number]
        for name, value in event.settings.items():
            if len(settings) < _MOST or name in settings:
                settings[name] = value

    def differences(self, step: int) -> Iterator[SettingDifference]:
        """Yield the settings that differ in `step` and were not yielded before."""
        if not self._has_changed:
            return
        self._has_changed = False
        first, second = self._settings
        for name in sorted(first.keys() & second.keys()):
            one, other = first[name], second[name]
            if name not in self._told and (type(one) is not type(other) or one != other):
                self._told.add(name)
                yield SettingDifference(name, [_in_words(one), _in_words(other)], step)


def _in_words(value: Setting) -> str:
    return "off" if value is None else str(value)
