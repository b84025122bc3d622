"""The tensors that optimizers keep for parameters, by name: "model.fc.weight.exp_avg"."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from proxy_wrapper.known.registry import StateEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.known.registry import Registry


class OptimizerStateEntry(StateEntry):
    """A tensor in `optimizer.state[parameter]`; it is looked up each time, never kept."""

    __slots__ = ("of", "slot", "state_key", "type_name")

    def __init__(self, number: int, of: StateEntry, slot: int, state_key: str | int) -> None:
        """Name a tensor.

        Args:
            number: its id.
            of: the parameter that it is kept for.
            slot: which of the parameter's optimizers keeps it.
            state_key: the key in the optimizer's state of that parameter.
        """
        self.of = of
        self.slot = slot
        self.state_key = state_key
        self.type_name = ""
        super().__init__(number, of.holder, "", is_buffer=False)
        self.name = self.wanted_name()

    def wanted_name(self) -> str:
        """The name that it has now that its parameter is called what it is."""
        return _name(self.of, self.state_key, self.slot)

    def is_absent(self) -> bool:
        """Whether no optimizer has it now."""
        return self.tensor() is None

    def tensor(self) -> torch.Tensor | None:
        """The tensor that has the name now; None if there is none."""
        kept, parameter = self.of.optimizer_state, self.of.tensor()
        optimizer = None if kept is None else kept.owners[self.slot]()
        if optimizer is None or parameter is None:
            return None
        tensor = state_of(optimizer, parameter).get(self.state_key)
        return tensor if isinstance(tensor, torch.Tensor) else None


class KeptForParameter:
    """What optimizers keep for one parameter: they have slots, which a new one takes over from one that is gone."""

    __slots__ = ("entries", "owners")

    def __init__(self) -> None:
        self.owners: list[weakref.ref[torch.optim.Optimizer]] = []
        self.entries: dict[tuple[int, str | int], OptimizerStateEntry] = {}

    def slot_of(self, optimizer: torch.optim.Optimizer) -> int:
        """The slot of `optimizer`, given to it now if it has none."""
        free = len(self.owners)
        for slot, owner in enumerate(self.owners):
            found = owner()
            if found is optimizer:
                return slot
            if found is None and free == len(self.owners):
                free = slot
        self.owners[free : free + 1] = [weakref.ref(optimizer)]
        return free


def state_of(optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> dict[Any, Any]:
    """What `optimizer` keeps for `parameter`; nothing, if it keeps no state as the optimizers of torch do."""
    state = optimizer.__dict__.get("state")
    kept = dict.get(state, parameter) if isinstance(state, dict) else None
    return kept if isinstance(kept, dict) else {}


def tensors_kept(optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> Iterator[tuple[str | int, torch.Tensor]]:
    """The tensors that `optimizer` keeps for `parameter`, with their keys; what else it keeps has no values."""
    for key, value in list(dict.items(state_of(optimizer, parameter))):
        if isinstance(value, torch.Tensor) and type(key) in (str, int):
            yield key, value


class Found(NamedTuple):
    """The entry of a tensor of optimizer state.

    Attributes:
        entry: the entry; that of a parameter or buffer, if the tensor is one.
        is_to_be_defined: the entry is new, or has another name than it was defined with.
        is_replaced: another tensor had its name when it was looked at last.
    """

    entry: StateEntry
    is_to_be_defined: bool = False
    is_replaced: bool = False


def find_entry(
    registry: Registry, optimizer: torch.optim.Optimizer, of: StateEntry, key: str | int, tensor: torch.Tensor
) -> Found:
    """The entry of a tensor that is kept for the parameter `of`, made and bound to the tensor where it has to be.

    A tensor that has a name already, such as one that is kept for two parameters, gets this one as an alias.
    """
    kept = of.optimizer_state
    if kept is None:
        kept = of.optimizer_state = KeptForParameter()
    slot = kept.slot_of(optimizer)
    entry = kept.entries.get((slot, key))
    if entry is not None and entry.identity == id(tensor):
        name, entry.name = entry.name, entry.wanted_name()
        return Found(entry, is_to_be_defined=name != entry.name)
    other = registry.state_entry(tensor)
    if other is not None and other is not entry:
        alias = _name(of, key, slot)
        if not isinstance(other, OptimizerStateEntry) or alias in (other.name, *other.aliases):
            return Found(other)
        other.aliases = (*other.aliases, alias)
        return Found(other, is_to_be_defined=True)
    is_new = entry is None
    if entry is None:
        entry = kept.entries[slot, key] = OptimizerStateEntry(registry.new_state_id(), of, slot, key)
        registry.optimizer_state[entry.id] = entry
    entry.type_name = type(optimizer).__name__
    registry.bind_kept(entry, tensor)
    return Found(entry, is_to_be_defined=is_new, is_replaced=not is_new)


def _name(of: StateEntry, key: str | int, slot: int) -> str:
    """The name of what is kept for a parameter, with a number where it is not the first optimizer that keeps it."""
    return f"{of.name}.{key}_{slot}" if slot else f"{of.name}.{key}"
