"""The tensors that optimizers keep for parameters, by name: "model.fc.weight.exp_avg"."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from proxy_wrapper.known.entries import KeptForParameter, OptimizerStateEntry, StateEntry, name_of_kept, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.known.registry import Registry


def tensors_kept(optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> Iterator[tuple[str | int, torch.Tensor]]:
    """The tensors that `optimizer` keeps for `parameter`, with their keys. Other state is skipped."""
    for key, value in list(dict.items(state_of(optimizer, parameter))):
        if isinstance(value, torch.Tensor) and type(key) in (str, int):
            yield key, value


class Found(NamedTuple):
    """The entry of a tensor of optimizer state.

    Attributes:
        entry: the entry. If the tensor is a parameter or buffer, that one's entry.
        is_to_be_defined: whether the entry is new, or its name has changed since its definition.
        is_replaced: whether another tensor had its name at the last look.
    """

    entry: StateEntry
    is_to_be_defined: bool = False
    is_replaced: bool = False


def find_entry(
    registry: Registry, optimizer: torch.optim.Optimizer, of: StateEntry, key: str | int, tensor: torch.Tensor
) -> Found:
    """The entry of a tensor kept for the parameter `of`, created and bound to the tensor if necessary.

    A tensor that already has a name, such as one kept for two parameters, gets this name as an alias.
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
        alias = name_of_kept(of, key, slot)
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
