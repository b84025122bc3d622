"""Proxies modules: a root with its submodules, modules found later, and the inheritance of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from proxy_wrapper.known.module_tree import innermost, named_modules
from proxy_wrapper.known.watch import Watch
from proxy_wrapper.levels import INFO

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType

    import torch
    from torch import nn

    from proxy_wrapper.known.definitions import Definitions
    from proxy_wrapper.known.entries import ModuleEntry, StateEntry
    from proxy_wrapper.known.module_tree import NamedModule
    from proxy_wrapper.known.registry import Registry
    from proxy_wrapper.writing.channel import Channel

DEFAULT_LOGDIR: Final = "proxy_trace"
DEFAULT_LEVEL: Final = INFO


class Settings(NamedTuple):
    """The settings that a module inherits from its parent."""

    channel: Channel
    level: int
    watch: Watch


class ProxiedTree:
    """Puts modules into the registry, and sends their definitions."""

    def __init__(self, registry: Registry, definitions: Definitions, channel_of: Callable[[str], Channel]) -> None:
        """Start with nothing proxied.

        Args:
            registry: the registry to fill.
            definitions: sends the definitions.
            channel_of: returns the channel of a `logdir`.
        """
        self._registry = registry
        self._definitions = definitions
        self._channel_of = channel_of
        self._adopted_ids: dict[str, int] = {}

    def add_root(
        self,
        module: nn.Module,
        recurse: bool,
        logdir: str | None,
        level: int | None,
        name: str | None,
        watch: Mapping[str, Any],
        location: int,
        function: CodeType | None,
    ) -> None:
        """Proxy `module`, which no proxied module holds, in `function`, with the given settings."""
        wanted = name or type(module).__name__
        root_name = self._taken_over(module, wanted) or self._registry.unique_name(wanted)
        found = named_modules(module, root_name)
        tree = found if recurse else found[:1]
        inner = next(filter(None, (self._registry.module_entry(each.module) for each in tree)), None)
        # Without a `logdir`, it uses the channel of the first proxied module below it.
        channel = inner.channel if logdir is None and inner is not None else self._channel_of(logdir or DEFAULT_LOGDIR)
        settings = Settings(channel, DEFAULT_LEVEL if level is None else level, Watch(**watch))
        entries = self.add_tree(tree, settings, None, location)
        entries[0].recurses = recurse
        entries[0].proxied_by = function
        entries[0].own_level = level is not None
        entries[0].own_channel = logdir is not None
        entries[0].own_watch = frozenset(watch)
        self._registry.forget_strangers()

    def name_for(self, entry: ModuleEntry, wanted: str | None, function: CodeType | None) -> str:
        """The name of a proxied module that `function` proxies again as `wanted`.

        If one function proxies and returns a module, its caller's name for it wins, unless it has been trained.
        """
        is_callers, entry.proxied_by = entry.proxied_by is not function, function
        is_known = entry.parent is not None or entry.was_called
        if wanted is None or is_known or not is_callers or _is_numbered(entry.plain_name, wanted):
            return entry.name
        return self._registry.unique_name(wanted)

    def _taken_over(self, module: nn.Module, wanted: str) -> str:
        """The name of a root that is called `wanted` and becomes part of `module`, as in `model = Wrapper(model)`."""
        for found in named_modules(module, ""):
            entry = self._registry.module_entry(found.module)
            if entry is not None and entry.parent is None and _is_numbered(entry.plain_name, wanted):
                return entry.plain_name
        return ""

    def add_tree(
        self,
        tree: Sequence[tuple[nn.Module, str, nn.Module | None]],
        settings: Settings,
        above: ModuleEntry | None,
        location: int,
    ) -> list[ModuleEntry]:
        """Proxy the modules of `tree` that are not proxied yet, and name all of them as in `tree`.

        Args:
            tree: a result of `named_modules`.
            settings: for modules without a parent.
            above: the module that holds the topmost one.
            location: where they are proxied.

        Returns:
            The entries of all modules, in the order of `tree`.
        """
        registry = self._registry
        states: list[tuple[StateEntry, torch.Tensor]] = []
        entries = []
        renamed: set[int] = set()
        new: list[ModuleEntry] = []
        for module, name, parent_module in tree:
            parent = registry.module_entry(parent_module) if parent_module is not None else above
            entry = registry.module_entry(module)
            if entry is None:
                inherited = settings_of(parent) if parent is not None else settings
                entry = registry.add_module(module, name, parent, *inherited)
                self._definitions.define_module(entry, module, location)
                new.append(entry)
            elif entry.parent is not parent or entry.name != name:
                entry.parent = parent
                registry.rename_module(entry, name)
                renamed.add(entry.id)
                self._definitions.define_module(entry, module, location)
            entry.is_submodule = parent is not None
            for state in entry.state:
                state.name = f"{entry.name}.{state.key}"
                state.watched = entry.watch.chooses(state.name)
                tensor = state.tensor()
                if entry.id in renamed and tensor is not None:
                    self._definitions.define_tensor(state, tensor)
            states.extend(registry.add_state(entry))
            entries.append(entry)
        for entry in _known_above(new, renamed):
            holder = entry.module()
            if holder is not None:  # It now has more parameters.
                self._definitions.define_module(entry, holder, 0)
        self._definitions.define_state(states)
        return entries

    def adopt_above(self, module: nn.Module, inner: ModuleEntry, location: int) -> None:
        """Proxy a module that is called at `location` and holds proxied ones, `inner` the first of them.

        The inner modules keep their names and remain roots, because the script named them, whatever a library builds
        around them. One of PyTorch's wrappers is named after the module in it.
        """
        wrapped = self._registry.module_entry(innermost(module))
        if wrapped is not None and wrapped.plain_name == wrapped.top.plain_name:
            tree = named_modules(module, wrapped.plain_name)
        else:
            name = wrapped.name if wrapped is not None else self._registry.name_beside(type(module).__name__)
            tree = named_modules(module, name, lambda found: self._is_of_other_tree(found, None))
        self.add_tree(tree, settings_of(inner), None, location)

    def _is_of_other_tree(self, module: nn.Module, top: ModuleEntry | None) -> bool:
        """Whether `module` is, or is below, an existing root other than `top`."""
        entry = self._registry.module_entry(module)
        return entry is not None and entry.top is not top and entry.top.module() is not None

    def _own_tree(self, root: ModuleEntry) -> list[NamedModule]:
        """The result of `named_modules` for a root, without modules that belong to other proxied trees."""
        module = root.module()
        if module is None:
            return []
        return named_modules(module, root.plain_name, lambda found: self._is_of_other_tree(found, root))

    def adopt_below(self, module: nn.Module, caller: ModuleEntry) -> ModuleEntry | None:
        """Proxy a module called by a proxied one: it was added to that one later, or is temporary."""
        top = caller.top
        tree = self._own_tree(top)
        if any(found.module is module for found in tree):
            self.add_tree(tree, settings_of(top), None, 0)
            return self._registry.module_entry(module)
        name = self._registry.name_beside(f"{caller.name}.{type(module).__name__}")
        entry = self._registry.add_module(module, name, caller, *settings_of(caller))
        entry.level = caller.level
        # To the reader of a trace, a module that is created in each forward pass is a single one.
        if name in self._adopted_ids:
            entry.id = self._adopted_ids[name]
        else:
            self._adopted_ids[name] = entry.id
            self._definitions.define_module(entry, module, 0)
        self._definitions.define_state(self._registry.add_state(entry))
        return entry

    def take_in(self, entry: ModuleEntry, root: ModuleEntry) -> bool:
        """Make a root part of another one, if it is proxied by the name that it has there, and return whether it is.

        So is the layer of `model.head = Proxy.Proxy(nn.Linear(64, 3), name="model.head")`. Other roots keep the name
        that the script gave them.
        """
        module, holder = entry.module(), root.module()
        if module is None or holder is None or not root.recurses:
            return False
        found = next((each for each in named_modules(holder, root.plain_name) if each.module is module), None)
        if found is None or found.parent is None or not _is_numbered(entry.plain_name, found.name):
            return False
        above = self._registry.module_entry(found.parent)
        if above is None:
            return False
        self.add_tree(named_modules(module, found.name), settings_of(entry), above, 0)
        return True

    def take_up_new(self) -> bool:
        """Proxy modules added to recursing roots since the last look, and return whether there were any.

        New parameters of known modules count too. Some modules create their parameters at their first call.
        """
        registry = self._registry
        found_any = False
        for root in [entry for entry in registry if entry.parent is None and entry.recurses]:
            tree = self._own_tree(root)
            if any(registry.module_entry(found.module) is None for found in tree):
                self.add_tree(tree, settings_of(root), None, 0)
                found_any = True
        for entry in registry:
            module = entry.module()
            if module is not None and self._definitions.define_new_state(entry, module):
                found_any = True
        return found_any

    def change_settings(
        self, entry: ModuleEntry, *, logdir: str | None, level: int | None, watch: Mapping[str, Any], recurse: bool
    ) -> None:
        """Change the given settings of `entry`, and of the modules below it without their own settings."""
        before = {entry: settings_of(entry)}
        if level is not None:
            entry.configured_level, entry.own_level = level, True
        if logdir is not None:
            entry.channel, entry.own_channel = self._channel_of(logdir), True
        if watch:
            entry.watch, entry.own_watch = msgspec.structs.replace(entry.watch, **watch), entry.own_watch | set(watch)
        module = entry.module()
        for found in named_modules(module, "")[1:] if module is not None and recurse else ():
            below = self._registry.module_entry(found.module)
            if below is not None and below.parent is not None:
                before[below] = settings_of(below)
                if not below.own_level:
                    below.configured_level = below.parent.configured_level
                if not below.own_channel:
                    below.channel = below.parent.channel
                below.watch = _inherited(below)
        changed = [each for each, settings in before.items() if settings != settings_of(each)]
        for each in changed:
            for state in each.state:
                state.watched = each.watch.chooses(state.name)
        self._definitions.define(changed)


def _is_numbered(name: str, wanted: str) -> bool:
    """Whether `name` is `wanted`, possibly with a number added."""
    number = name.removeprefix(wanted)
    return name == wanted or (number != name and number[0] == "_" and number[1:].isdecimal())


def _inherited(entry: ModuleEntry) -> Watch:
    """The effective `Watch` of `entry`: that of its parent, with the fields that were set on itself."""
    above = entry.watch if entry.parent is None else entry.parent.watch
    return msgspec.structs.replace(above, **{name: getattr(entry.watch, name) for name in entry.own_watch})


def settings_of(entry: ModuleEntry) -> Settings:
    """The settings that the modules below `entry` inherit."""
    return Settings(entry.channel, entry.configured_level, entry.watch)


def _known_above(new: Sequence[ModuleEntry], defined: set[int]) -> list[ModuleEntry]:
    """The modules above those of `new` that are neither new nor in `defined`, a set of ids."""
    passed = {entry.id for entry in new} | defined
    found = []
    for entry in new:
        above = entry.parent
        while above is not None:
            if above.id not in passed:
                passed.add(above.id)
                found.append(above)
            above = above.parent
    return found
