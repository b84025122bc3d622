"""Which tensors have been met, by identity, without keeping one alive."""

from __future__ import annotations

from typing import Any, Final

import torch

_FIRST_SWEEP: Final = 1024


class SeenTensors:
    """A set of tensors by identity.

    A `weakref` will not do: a tensor's Python object can die and come back while the tensor lives on in the autograd
    graph. torch's own weak reference to the tensor proper is blind to that. It has no callback, so the dead are swept
    out whenever the set has doubled. `torch.utils.swap_tensors` refuses a tensor that has a weak reference of either
    kind, so what it is used on, a module's parameters and their gradients, must not be put in here.
    """

    def __init__(self) -> None:
        self._refs: dict[int, Any] = {}
        self._sweep_at = _FIRST_SWEEP

    def __contains__(self, tensor: torch.Tensor) -> bool:
        ref = self._refs.get(id(tensor))
        return ref is not None and not ref.expired()

    def add(self, tensor: torch.Tensor) -> bool:
        """Put `tensor` in; True if it was in already."""
        ref = self._refs.get(id(tensor))
        if ref is not None and not ref.expired():
            return True
        self._refs[id(tensor)] = torch._C._WeakTensorRef(tensor)  # type: ignore[attr-defined]
        if len(self._refs) >= self._sweep_at:
            # Other threads may add meanwhile; what they add during the copy is met again on its next use.
            self._refs = {key: ref for key, ref in list(self._refs.items()) if not ref.expired()}
            self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._refs))
        return False
