"""The registry of proxied objects: names and settings by identity. It keeps no object alive, and modifies none."""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Final

import torch
from torch import nn

from proxy_wrapper.known.entries import ModuleEntry, StateEntry
from proxy_wrapper.known.seen_tensors import SeenTensors

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from proxy_wrapper.known.entries import OptimizerStateEntry
    from proxy_wrapper.known.watch import Watch
    from proxy_wrapper.writing.channel import Channel

_MOST_ALIKE: Final = 100
"""How many modules of one type, called but not held by the same module, get distinct names."""

_FIRST_SWEEP: Final = 1024
"""The number of names at which names of freed models are first swept. Later, this happens whenever it doubles."""


class Registry:
    """All proxied objects of the process.

    It is changed under the tracer's lock, and read without it, because each look-up is a single one in a dictionary.
    Modules are freed on any thread at any time, so their cleanup never waits for the lock.
    """

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self.modules: dict[int, ModuleEntry] = {}
        self.state: dict[int, StateEntry] = {}
        self.optimizer_state: dict[int, OptimizerStateEntry] = {}
        self.tensors = SeenTensors()
        self.by_identity: dict[int, StateEntry] = {}
        # Modules that were freed before their model, by id.
        self.departed: dict[int, ModuleEntry] = {}
        # Parameters of freed models that no optimizer had. They are taken at the next look at values.
        self.freed: list[StateEntry] = []
        self._strangers: dict[int, weakref.ref[nn.Module]] = {}
        self._names: set[str] = set()
        # The last module with each name: by (type, name), and by ("", name) for any type.
        self._named: dict[tuple[str, str], ModuleEntry] = {}
        self._sweep_at = _FIRST_SWEEP
        self._on_freed = self._note_freed  # A single bound method for all modules.
        self._freed: deque[weakref.KeyedRef[int, nn.Module]] = deque()  # Not processed yet.
        self._next_module = 1
        self._next_state = 1
        self.states_added = 0
        """The number of parameters and buffers registered so far."""

    def __iter__(self) -> Iterator[ModuleEntry]:
        return iter(list(self.modules.values()))

    def module_entry(self, module: nn.Module) -> ModuleEntry | None:
        """The entry of a proxied module."""
        entry = self.modules.get(id(module))
        return entry if entry is not None and entry.module() is module else None

    def state_entry(self, tensor: torch.Tensor) -> StateEntry | None:
        """The entry of a parameter or buffer of a proxied module."""
        entry = self.by_identity.get(id(tensor))
        # An id may be reused after its object is freed, so the identity is checked.
        return entry if entry is not None and entry.tensor() is tensor else None

    def meet(self, tensor: torch.Tensor) -> int:
        """The number of a tensor, assigned now if it is new; 0 for the state of a proxied module."""
        key = id(tensor)
        entry = self.by_identity.get(key)
        if entry is not None and entry.tensor() is tensor:
            return 0
        # `SeenTensors.meet`, inlined because this is a hot path.
        known = self.tensors.refs.get(key)
        return known[1] if known is not None and not known[0].expired() else self.tensors.add(tensor)

    def is_proxied(self, obj: object) -> bool:
        """Whether `obj` is a proxied module, a tensor of its state, or a tensor seen in a call of a module or torch."""
        if isinstance(obj, nn.Module):
            return self.module_entry(obj) is not None
        if isinstance(obj, torch.Tensor):
            return self.state_entry(obj) is not None or obj in self.tensors
        return False

    def unique_name(self, wanted: str) -> str:
        """`wanted`, with a number as in `torch.fx` names of nodes if another root has that name."""
        name, number = wanted, 0
        while name in self._names:
            number += 1
            name = f"{wanted}_{number}"
        self._names.add(name)
        return name

    def name_beside(self, wanted: str) -> str:
        """`wanted`, with a number if other existing modules have that name.

        If a program creates a module in each call and keeps all of them, only the first get distinct names.
        """
        for number in range(_MOST_ALIKE):
            name = f"{wanted}_{number}" if number else wanted
            entry = self._named.get(("", name))
            if entry is None or entry.name != name or entry.module() is None:
                return name
        return wanted

    def add_module(
        self, module: nn.Module, name: str, parent: ModuleEntry | None, channel: Channel, level: int, watch: Watch
    ) -> ModuleEntry:
        """Register a module that is not registered yet. Its state is added by `add_state`.

        A module that takes the place of a freed one gets its id, because to the reader of a trace they are the same:
        for instance, a replaced layer, or a wrapper that a solver creates in each call.
        """
        self._forget_freed()
        key = id(module)
        self._strangers.pop(key, None)
        type_name = type(module).__name__
        before = self._gone(name, type_name)
        if before is not None:
            number = before.id
        else:
            number = self._next_module
            self._next_module += 1
        ref = weakref.KeyedRef(module, self._on_freed, key)
        entry = ModuleEntry(number, ref, name, type_name, parent, channel, level, watch)
        if before is not None:
            entry.state_ids = {(state.is_buffer, state.key): state.id for state in before.state}
            before.successor = entry
        self.modules[key] = entry
        self.rename_module(entry, name)
        return entry

    def _gone(self, name: str, type_name: str) -> ModuleEntry | None:
        """The freed module that had `name`, preferably one of the same type; None if there is none."""
        for key in ((type_name, name), ("", name)):
            entry = self._named.get(key)
            if entry is not None and entry.name == name and entry.module() is None:
                return entry
        return None

    def rename_module(self, entry: ModuleEntry, name: str) -> None:
        """Rename a module, because it was moved, or because something was built around it."""
        entry.name = name
        self._named[entry.type_name, name] = self._named["", name] = entry
        if len(self._named) >= self._sweep_at:
            self._forget_names()

    def _forget_names(self) -> None:
        """Forget the names of modules whose whole model was freed. Later modules no longer take their ids."""
        living = {entry.top.plain_name for entry in self}
        self._named = {key: entry for key, entry in self._named.copy().items() if entry.top.plain_name in living}
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._named))

    def remove_module(self, entry: ModuleEntry) -> None:
        """Forget a module and its state."""
        for key, other in self.modules.copy().items():
            if other is entry:
                self.modules.pop(key, None)
        for state in entry.state:
            self._forget_state(state)

    def _note_freed(self, ref: weakref.KeyedRef[int, nn.Module]) -> None:
        """Forget a module that is being freed. If the registry is in use, this happens at its next change."""
        self._freed.append(ref)
        if self._lock.acquire(blocking=False):
            try:
                self._forget_freed()
            finally:
                self._lock.release()

    def _forget_freed(self) -> None:
        while self._freed:
            ref = self._freed.popleft()
            entry = self.modules.get(ref.key)
            if entry is not None and entry.module is ref:
                self.modules.pop(ref.key, None)
                for state in entry.state:
                    self._forget_state(state)
                if entry.is_submodule and entry.top.module() is not None:
                    self.departed[entry.id] = entry
                else:
                    self.freed += [state for state in entry.state if not (state.is_buffer or state.has_optimizer)]

    def _forget_state(self, state: StateEntry) -> None:
        if self.state.get(state.id) is state:
            self.state.pop(state.id, None)
        kept = () if state.optimizer_state is None else state.optimizer_state.entries.values()
        for entry in kept:
            self.optimizer_state.pop(entry.id, None)
        for each in (state, *kept):
            for identity in (each.identity, each.original):
                if self.by_identity.get(identity) is each:
                    self.by_identity.pop(identity, None)

    def add_state(self, entry: ModuleEntry) -> list[tuple[StateEntry, torch.Tensor]]:
        """Register the new parameters and buffers that `entry`'s module holds directly.

        A tensor that is already registered under another name gets this name as an alias.

        Returns:
            The new entries and those with a new alias, each with its tensor.
        """
        module = entry.module()
        if module is None:
            return []
        changed: list[tuple[StateEntry, torch.Tensor]] = []
        known = {(state.is_buffer, state.key) for state in entry.state}
        for is_buffer, attribute in ((False, "_parameters"), (True, "_buffers")):
            registered = module.__dict__.get(attribute)
            for key, tensor in list(registered.items()) if registered is not None else ():
                if tensor is None or (is_buffer, key) in known:
                    continue
                other = self.state_entry(tensor)
                if other is not None and other.id in self.state:
                    alias = f"{entry.name}.{key}"
                    if alias != other.name and alias not in other.aliases:
                        other.aliases = (*other.aliases, alias)
                        changed.append((other, tensor))
                    continue
                number = entry.state_ids.get((is_buffer, key), 0)
                if not number or number in self.state:
                    number = self.new_state_id()
                state = StateEntry(number, entry, key, is_buffer=is_buffer)
                state.watched = entry.watch.chooses(state.name)
                entry.state.append(state)
                self.state[state.id] = state
                self.states_added += 1
                self.bind(state, tensor)
                changed.append((state, tensor))
        return changed

    def new_state_id(self) -> int:
        """An id that no parameter, buffer or tensor of optimizer state has had."""
        number = self._next_state
        self._next_state += 1
        return number

    def bind_kept(self, entry: OptimizerStateEntry, tensor: torch.Tensor) -> None:
        """Note that an optimizer currently has `tensor` under the name of `entry`."""
        if self.by_identity.get(entry.identity) is entry:
            del self.by_identity[entry.identity]
        entry.identity = entry.original = id(tensor)
        self.by_identity[entry.identity] = entry

    def bind(self, state: StateEntry, tensor: torch.Tensor) -> None:
        """Note that `tensor` currently has the name of `state`.

        The first tensor with the name stays known. Programs that replace it temporarily (meta-learning, swapped
        weights) restore it before they step.
        """
        if state.identity != state.original and self.by_identity.get(state.identity) is state:
            del self.by_identity[state.identity]
        state.put_in = 0
        state.identity = id(tensor)
        state.original = state.original or state.identity
        self.by_identity[state.identity] = state

    def bind_again(self, state: StateEntry, tensor: torch.Tensor) -> None:
        """Note that `tensor` has the name of `state` again, and drop any other name that it had in between."""
        known = self.by_identity.get(state.identity)
        if known is not state and (known is None or known.tensor() is not tensor):
            self.by_identity[state.identity] = state

    def is_stranger(self, module: nn.Module) -> bool:
        """Whether `module` was found to hold no proxied module since the last root was added."""
        ref = self._strangers.get(id(module))
        return ref is not None and ref() is module

    def note_stranger(self, module: nn.Module) -> None:
        """Remember that `module` holds no proxied module, so that its next call costs only one look-up."""
        key = id(module)
        strangers = self._strangers
        strangers[key] = weakref.ref(module, lambda _: strangers.pop(key, None))

    def forget_strangers(self) -> None:
        """Check every unknown module again, because a new root may be inside it."""
        self._strangers.clear()
