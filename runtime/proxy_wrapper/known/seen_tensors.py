"""Which tensors have been met: by identity, each with a number of its own, without keeping one alive."""

from __future__ import annotations

from itertools import count
from typing import Any, Final

import torch

_FIRST_SWEEP: Final = 1024
_WeakTensorRef: Final = torch._C._WeakTensorRef  # type: ignore[attr-defined]


class SeenTensors:
    """Numbers tensors as they are met, from 1; a number is never given again.

    A `weakref` will not do: a tensor's Python object can die and come back while the tensor lives on in the autograd
    graph. torch's own weak reference to the tensor proper is blind to that. It has no callback, so the dead are swept
    out whenever the set has doubled. Nor do ids or addresses do: the tensor that a loop makes anew mostly gets those
    of the one that it replaces.

    `torch.utils.swap_tensors` refuses a tensor that has a weak reference of either kind; `TensorSwaps` lets go of
    ours first. A module's parameters and gradients are not put in here all the same: they have names.
    """

    def __init__(self) -> None:
        self.refs: dict[int, tuple[Any, int]] = {}
        self._next = count(1)
        self._sweep_at = _FIRST_SWEEP

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return self.number(tensor) > 0

    def number(self, tensor: torch.Tensor) -> int:
        """The number of `tensor`; 0 if it has not been met."""
        known = self.refs.get(id(tensor))
        return known[1] if known is not None and not known[0].expired() else 0

    def meet(self, tensor: torch.Tensor) -> int:
        """The number of `tensor`, which is given one if it has not been met."""
        known = self.refs.get(id(tensor))
        return known[1] if known is not None and not known[0].expired() else self.add(tensor)

    def add(self, tensor: torch.Tensor) -> int:
        """The number that is now given to `tensor`, which has not been met."""
        refs, key = self.refs, id(tensor)
        mine = (_WeakTensorRef(tensor), next(self._next))
        known = refs.setdefault(key, mine)
        if known is not mine:
            if not known[0].expired():  # Another thread has met it meanwhile.
                return known[1]
            refs[key] = mine
        if len(refs) >= self._sweep_at:
            self._sweep()
        return mine[1]

    def forget(self, tensor: torch.Tensor) -> None:
        """Hold no reference to `tensor` any more; if it is met again, it gets another number."""
        self.refs.pop(id(tensor), None)

    def _sweep(self) -> None:
        refs = self.refs
        self._sweep_at = 2 * len(refs)  # Other threads need not sweep as well.
        for key, known in refs.copy().items():
            if not known[0].expired():
                continue
            removed = refs.pop(key, known)
            if removed is not known:  # Another thread has met a new tensor under this id since.
                refs.setdefault(key, removed)
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(refs))
