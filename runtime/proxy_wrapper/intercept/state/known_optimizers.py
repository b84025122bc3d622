"""The program's optimizers: those that have stepped proxied parameters, and those found by a search."""

from __future__ import annotations

import gc
import weakref

import torch


class KnownOptimizers:
    """Tells which tensors belong to an optimizer. Keeps none alive."""

    def __init__(self) -> None:
        # An optimizer that stepped a proxied model and no longer does is worth a record: the parameters were replaced,
        # and it goes on with the old ones.
        self._stepped: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._found: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()

    def __contains__(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether it has stepped proxied parameters."""
        return optimizer in self._stepped

    def add(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that it steps proxied parameters."""
        self._stepped.add(optimizer)

    def find_all(self) -> None:
        """Search memory for all optimizers, which takes about 20 ms: PyTorch keeps no list of them."""
        for each in gc.get_objects():
            if issubclass(type(each), torch.optim.Optimizer):  # `isinstance` might run the object's code.
                self._found.add(each)

    def taken(self, identities: set[int]) -> set[int]:
        """Those of these tensors, by `id`, that a known optimizer has now.

        All groups are searched each time, about 40 ns per tensor: they are the program's own lists, whose changes go
        unnoticed.
        """
        found: set[int] = set()
        for optimizer in {*self._stepped, *self._found}:
            # One that another thread is making has no groups yet.
            for group in getattr(optimizer, "param_groups", ()):
                found.update(identities.intersection(map(id, group["params"])))
        return found
