"""Releases tensors that `torch.utils.swap_tensors` is about to swap: it refuses those with weak references."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.intercept.attaching.call_sites import uncounted

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.tracer import Tracer

_NAME: Final = "_swap_tensor_impl"


class TensorSwaps:
    """Creates no events. Both tensors are registered anew when they are next seen.

    Swapping converts modules whose parameters are of a tensor subclass (`DTensor`, quantised), and all modules under
    `torch.__future__.set_swap_module_params_on_conversion(True)`. PyTorch has no hook there, so the underlying function
    is replaced where torch looks it up.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._original: Callable[..., Any] | None = None
        self._replacement: Callable[..., Any] | None = None

    def install(self) -> None:
        """Replace the function in `torch._C`, if this torch has it."""
        original = getattr(torch._C, _NAME, None)
        if self._original is not None or original is None:
            return
        forget = self._tracer.registry.tensors.forget

        @functools.wraps(original)
        @uncounted
        def swap(first: torch.Tensor, second: torch.Tensor) -> None:
            forget(first)
            forget(second)
            original(first, second)

        self._original, self._replacement = original, swap
        setattr(torch._C, _NAME, swap)

    def remove(self) -> None:
        """Restore the original, unless other code has replaced ours since."""
        if self._original is not None and getattr(torch._C, _NAME, None) is self._replacement:
            setattr(torch._C, _NAME, self._original)
        self._original = self._replacement = None
