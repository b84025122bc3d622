"""Adds our hooks to torch's global registries of hooks on modules and optimizers, and removes them.

Other threads may be iterating over these registries, and a registry that changes meanwhile raises an error in the
program. So an empty registry is replaced by a new one that holds our hook; whoever iterates over the old one is
undisturbed. If the program has hooks, ours join them, since the program's handles know that registry: adding or
removing the last entry does no harm.

Our numbers are negative, while torch counts up from 0. Torch does not count ours, because a number is the key of a
hook in its module, and a file to which the whole module is saved contains it.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

_NUMBERS: Final = itertools.count(-(1 << 40))


class GlobalHooks:
    """Hooks that are added and removed together, all under one number."""

    def __init__(self, home: ModuleType, hooks: Mapping[str, Any]) -> None:
        """Prepare the hooks without adding them.

        Args:
            home: the torch module that has the registries.
            hooks: the hook for each registry, by name, in this order.
        """
        self._home = home
        self._hooks = dict(hooks)
        self._number = next(_NUMBERS)
        self._empty: dict[str, OrderedDict[int, Any]] = {}

    def put_in(self) -> None:
        """Add the hooks. Does nothing if they are there."""
        for name, hook in self._hooks.items():
            registry = getattr(self._home, name)
            if self._number in registry:
                continue
            if registry:
                registry[self._number] = hook
            else:
                self._empty[name] = registry
                setattr(self._home, name, OrderedDict({self._number: hook}))

    def take_out(self) -> None:
        """Remove the hooks. Does nothing if they are gone."""
        for name in reversed(self._hooks):
            registry = getattr(self._home, name)
            empty = self._empty.pop(name, None)
            if self._number not in registry:
                continue
            if empty is not None and len(registry) == 1:
                setattr(self._home, name, empty)
            else:
                del registry[self._number]

    def are_alone(self) -> bool:
        """Whether the registries have no other hooks."""
        home, number = self._home, self._number
        for name in self._hooks:  # A plain loop, because every call of a module may ask.
            registry = getattr(home, name)
            if len(registry) != (number in registry):
                return False
        return True

    def without_ours(self, value: Any) -> Any:
        """What torch would have in place of `value`, one of its registries, without our hooks: a copy without them."""
        if type(value) is not OrderedDict or self._number not in value:
            return value
        return OrderedDict((number, hook) for number, hook in value.items() if number != self._number)
