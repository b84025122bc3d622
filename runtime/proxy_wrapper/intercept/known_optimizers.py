"""The optimizers of the program: those that have stepped with proxied parameters, and others that were looked for."""

from __future__ import annotations

import gc
import weakref

import torch


class KnownOptimizers:
    """Tells which tensors an optimizer has. Keeps none alive."""

    def __init__(self) -> None:
        # Once it has updated a proxied model, an optimizer that no longer does is worth a record: the parameters were
        # replaced, and it goes on with the old ones.
        self._stepped: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._found: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()

    def __contains__(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether it has stepped with proxied parameters."""
        return optimizer in self._stepped

    def add(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that it steps with proxied parameters."""
        self._stepped.add(optimizer)

    def find_all(self) -> None:
        """Look for all optimizers that there are, which takes some 20 ms: PyTorch keeps no list of those made."""
        for each in gc.get_objects():
            if issubclass(type(each), torch.optim.Optimizer):  # Not `isinstance`: that may run code of the object's.
                self._found.add(each)

    def taken(self, identities: set[int]) -> set[int]:
        """Those of these tensors, by their `id`, that one of the optimizers known has now.

        All groups are gone through each time, some 40 ns for each tensor: they are the program's own lists, and nothing
        tells when it changes one.
        """
        found: set[int] = set()
        for optimizer in {*self._stepped, *self._found}:
            # One that another thread is making has no groups yet.
            for group in getattr(optimizer, "param_groups", ()):
                found.update(identities.intersection(map(id, group["params"])))
        return found
