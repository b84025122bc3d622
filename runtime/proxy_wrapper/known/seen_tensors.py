"""Numbers tensors by identity, without keeping any alive."""

from __future__ import annotations

from itertools import count
from typing import Any, Final

import torch

_FIRST_SWEEP: Final = 1024
_WeakTensorRef: Final = torch._C._WeakTensorRef  # type: ignore[attr-defined]


class SeenTensors:
    """Numbers tensors in the order in which they are first seen, from 1. Numbers are never reused.

    A `weakref` is not enough: a tensor's Python object can die and be recreated while the tensor lives on in the
    autograd graph. Torch's own weak reference refers to the C++ tensor, so it is not affected. It has no callback, so
    dead entries are swept whenever the set has doubled. Ids and addresses are not enough either: a tensor that a loop
    creates anew usually gets those of its predecessor.

    `torch.utils.swap_tensors` rejects a tensor with a weak reference of either kind, so `TensorSwaps` drops ours first.
    Still, a module's parameters and gradients are not stored here, because they have names.
    """

    def __init__(self) -> None:
        self.refs: dict[int, tuple[Any, int]] = {}
        self._next = count(1)
        self._sweep_at = _FIRST_SWEEP

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return self.number(tensor) > 0

    def number(self, tensor: torch.Tensor) -> int:
        """The number of `tensor`; 0 if it has none."""
        known = self.refs.get(id(tensor))
        return known[1] if known is not None and not known[0].expired() else 0

    def meet(self, tensor: torch.Tensor) -> int:
        """The number of `tensor`, assigned now if it has none."""
        known = self.refs.get(id(tensor))
        return known[1] if known is not None and not known[0].expired() else self.add(tensor)

    def add(self, tensor: torch.Tensor) -> int:
        """Assign a number to `tensor`, which has none, and return it."""
        refs, key = self.refs, id(tensor)
        mine = (_WeakTensorRef(tensor), next(self._next))
        known = refs.setdefault(key, mine)
        if known is not mine:
            if not known[0].expired():  # Another thread has numbered it in the meantime.
                return known[1]
            refs[key] = mine
        if len(refs) >= self._sweep_at:
            self._sweep()
        return mine[1]

    def forget(self, tensor: torch.Tensor) -> None:
        """Drop the reference to `tensor`. If it is seen again, it gets another number."""
        self.refs.pop(id(tensor), None)

    def _sweep(self) -> None:
        refs = self.refs
        self._sweep_at = 2 * len(refs)  # Other threads need not sweep as well.
        for key, known in refs.copy().items():
            if not known[0].expired():
                continue
            removed = refs.pop(key, known)
            if removed is not known:  # Another thread has since seen a new tensor with this id.
                refs.setdefault(key, removed)
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(refs))
