"""Puts hooks of ours into torch's registries of hooks on all modules and all optimizers, and takes them out again.

Other threads go through these registries meanwhile, calling hooks as they go: a registry that changes under them raises
in the program. So where there is none but ours, a registry of its own takes the place of torch's empty one; who goes
through the other goes on there. Only where the program has hooks itself, ours are put among them, since the handles
that it was given know that registry: the last of a registry may come and go without harm.

The numbers of ours are such as torch does not give, which counts up from 0, and it does not count them: a number is the
key of a hook in its module, so that a file has it to which the whole module is saved.
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
    """Hooks that are put in and taken out together, all under one number."""

    def __init__(self, home: ModuleType, hooks: Mapping[str, Any]) -> None:
        """Put none in yet.

        Args:
            home: the module of torch that has the registries.
            hooks: what goes into the registry of each name, in this order.
        """
        self._home = home
        self._hooks = dict(hooks)
        self._number = next(_NUMBERS)
        self._empty: dict[str, OrderedDict[int, Any]] = {}

    def put_in(self) -> None:
        """Let torch call the hooks. Does nothing if it does."""
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
        """Leave the registries as they are without the hooks. Does nothing if they are."""
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
        return not any(set(getattr(self._home, name)) - {self._number} for name in self._hooks)

    def without_ours(self, value: Any) -> Any:
        """What torch would have in place of `value` without the hooks: another registry, if it is one that has them."""
        if type(value) is not OrderedDict or self._number not in value:
            return value
        return OrderedDict((number, hook) for number, hook in value.items() if number != self._number)
