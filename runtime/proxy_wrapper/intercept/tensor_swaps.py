"""Lets go of tensors that `torch.utils.swap_tensors` is about to swap: it refuses those with a weak reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.tracer import Tracer


class TensorSwaps:
    """Makes no events: the two tensors are met as new ones when they are next seen.

    Swapping is how modules with parameters of a tensor subclass (`DTensor`, quantised ones) are converted, and all
    modules under `torch.__future__.set_swap_module_params_on_conversion(True)`. PyTorch has no hook there, so the
    function below it is replaced where torch looks it up at each call.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._original: Callable[..., Any] | None = None
        self._replacement: Callable[..., Any] | None = None

    def install(self) -> None:
        """Replace `torch._C._swap_tensor_impl`, if this torch has it."""
        original = getattr(torch._C, "_swap_tensor_impl", None)
        if self._original is not None or original is None:
            return
        forget = self._tracer.registry.tensors.forget

        def swap(first: torch.Tensor, second: torch.Tensor) -> None:
            forget(first)
            forget(second)
            original(first, second)

        self._original, self._replacement = original, swap
        torch._C._swap_tensor_impl = swap  # type: ignore[attr-defined]

    def remove(self) -> None:
        """Put the original back, unless somebody else has replaced ours since."""
        if self._original is not None and getattr(torch._C, "_swap_tensor_impl", None) is self._replacement:
            torch._C._swap_tensor_impl = self._original  # type: ignore[attr-defined]
        self._original = self._replacement = None
