"""Sees what optimizers are set to: their learning rates and other numbers, and which parameters they have."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.events import Optimizer, ParameterGroup
from proxy_wrapper.levels import INFO

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from proxy_wrapper.events import Setting
    from proxy_wrapper.state_tensors import StateTensors
    from proxy_wrapper.tracer import Tracer

_LONGEST: Final = 100
"""How long a text may be, and a tuple, that is a setting: longer ones are data."""


class _Known:
    """What was recorded of an optimizer last.

    Attributes:
        id: its number.
        groups: what its groups were.
        identities: of what tensors they consisted.
        of_modules: how many of these a proxied module had.
        channels: who knows.
    """

    __slots__ = ("channels", "groups", "id", "identities", "of_modules")

    def __init__(self, number: int) -> None:
        self.id = number
        self.groups: list[ParameterGroup] = []
        self.identities: list[tuple[int, ...]] = []
        self.of_modules = 0
        self.channels: tuple[str, ...] = ()


class OptimizerSettings:
    """Makes `Optimizer` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._known: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Known] = weakref.WeakKeyDictionary()
        self._made = 0

    def look(self, optimizer: torch.optim.Optimizer, states: StateTensors, location: int, now_us: int) -> int:
        """Record what has changed since the last step of an optimizer.

        Args:
            optimizer: it steps.
            states: those of its parameters that proxied modules have.
            location: where it steps.
            now_us: when.

        Returns:
            The id of the optimizer.
        """
        known = self._known.get(optimizer)
        channels = tuple(self._tracer.channels)
        if known is None:
            self._made += 1
            known = self._known[optimizer] = _Known(self._made)
        # A new channel knows nothing; a parameter that a module has no more counts among the others.
        is_new = (known.channels, known.of_modules) != (channels, len(states))
        known.channels, known.of_modules = channels, len(states)
        if is_new or len(known.groups) != len(optimizer.param_groups):
            known.groups, known.identities = [], []
        changed: dict[int, ParameterGroup] = {}
        for index, group in enumerate(optimizer.param_groups):
            settings = _settings_of(group)
            identities = tuple(map(id, group["params"]))
            if index >= len(known.groups):
                known.groups.append(self._group(settings, identities, states))
                known.identities.append(identities)
                changed[index] = known.groups[index]
                continue
            before = known.groups[index]
            if identities != known.identities[index]:
                known.groups[index] = changed[index] = self._group(settings, identities, states)
                known.identities[index] = identities
            elif settings != before.settings:
                known.groups[index] = ParameterGroup(settings, before.tensors, before.others)
                moved = {name: value for name, value in settings.items() if before.settings.get(name, _NEW) != value}
                changed[index] = ParameterGroup(moved)
        if changed:
            self._emit(known.id, type(optimizer).__name__, changed, location, now_us)
        return known.id

    @staticmethod
    def _group(settings: dict[str, Setting], identities: tuple[int, ...], states: StateTensors) -> ParameterGroup:
        ids = {id(tensor): state.id for state, tensor in states}
        tensors = tuple(ids[identity] for identity in identities if identity in ids)
        return ParameterGroup(settings, tensors, len(identities) - len(tensors))

    def _emit(self, number: int, name: str, changed: Mapping[int, ParameterGroup], location: int, now_us: int) -> None:
        tracer = self._tracer
        thread = tracer.thread
        event = Optimizer(
            now_us,
            tracer.step,
            0,
            location,
            thread.number,
            thread.stage,
            number,
            name,
            tuple(changed.values()),
            tuple(changed),
        )
        tracer.broadcast(event, location, level=INFO)


_NEW: Final = object()


def _settings_of(group: Mapping[str, Any]) -> dict[str, Setting]:
    """The settings of a group of parameters that JSON can say; a tensor, as a learning rate may be, is not read."""
    settings: dict[str, Setting] = {}
    for name, value in group.items():
        kind = type(value)
        if kind is float:
            settings[name] = value if value - value == 0 else str(value)
        elif kind is str:
            settings[name] = value if len(value) <= _LONGEST else "str"
        elif kind is bool or value is None or (kind is int and abs(value) < 1 << 53):
            settings[name] = value
        elif kind is tuple and name != "params" and len(value) <= _LONGEST:
            settings.update(_settings_of({f"{name}.{index}": each for index, each in enumerate(value)}))
    return settings
