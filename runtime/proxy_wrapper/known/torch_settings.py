"""Reads torch's global settings, without changing any. Two runs may differ in nothing else that is visible.

Reading all of them takes a few microseconds, because it happens at each call of a model and at each step. It must not
initialize a device: CUDA is only asked once the program has initialized it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._device import DeviceContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.events import Setting

_EXACT: Final = 2**53
"""Integers up to this are exact for every reader of JSON."""

_AUTOCAST_DEVICES: Final = ("cpu", "cuda", "xpu", "mps", "mtia", "hpu")

_GETTERS: Final = {
    "interop_threads": "get_num_interop_threads",
    "threads": "get_num_threads",
    "float32_matmul_precision": "_get_float32_matmul_precision",
    "cuda.matmul.allow_tf32": "_get_cublas_allow_tf32",
    "cuda.matmul.allow_fp16_reduced_precision_reduction": "_get_cublas_allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_bf16_reduced_precision_reduction": "_get_cublas_allow_bf16_reduced_precision_reduction",
    "cuda.matmul.allow_fp16_accumulation": "_get_cublas_allow_fp16_accumulation",
    "cudnn.enabled": "_get_cudnn_enabled",
    "cudnn.allow_tf32": "_get_cudnn_allow_tf32",
    "cudnn.benchmark": "_get_cudnn_benchmark",
    "cudnn.deterministic": "_get_cudnn_deterministic",
    "mkldnn.enabled": "_get_mkldnn_enabled",
}
"""The settings that a torch function returns as they are, and the name of that function."""

_PRECISIONS: Final = {
    "fp32_precision": ("generic", "all"),
    "cuda.matmul.fp32_precision": ("cuda", "matmul"),
    "cudnn.conv.fp32_precision": ("cuda", "conv"),
    "cudnn.rnn.fp32_precision": ("cuda", "rnn"),
    "mkldnn.matmul.fp32_precision": ("mkldnn", "matmul"),
    "mkldnn.conv.fp32_precision": ("mkldnn", "conv"),
    "mkldnn.rnn.fp32_precision": ("mkldnn", "rnn"),
}
"""The backend and operator of each of the newer TF32 settings."""


class TorchSettings:
    """Reads the settings that this version of torch has."""

    def __init__(self) -> None:
        readers: dict[str, Callable[[], Any]] = {
            "default_dtype": torch.get_default_dtype,
            "default_device": _default_device,
            "seed": torch.default_generator.initial_seed,
            "cuda_seed": _cuda_seed,
            "deterministic_algorithms": torch._C._get_deterministic_algorithms,
            "deterministic_algorithms.warn_only": torch._C._get_deterministic_algorithms_warn_only,
        }
        for name, function in _GETTERS.items():
            getter = getattr(torch._C, function, None)
            if getter is not None:
                readers[name] = getter
        get_precision = getattr(torch._C, "_get_fp32_precision_getter", None)
        if get_precision is not None:
            readers.update((name, functools.partial(get_precision, *of)) for name, of in _PRECISIONS.items())
        self._names = (*readers, "autocast")
        self._readers = tuple(readers.values())

    def look(self, autocast: object) -> tuple[Any, ...]:
        """The value of each setting as torch has it. Two results are equal if nothing has changed.

        Args:
            autocast: the state of autocast, as returned by `autocast_now`.
        """
        try:
            return (*[read() for read in self._readers], autocast)
        except RuntimeError:  # One cannot be read.
            return (*map(_told, self._readers), autocast)

    def name(self, values: tuple[Any, ...]) -> dict[str, Setting]:
        """The settings by name, from a result of `look`; None for one that cannot be read, or is off."""
        found = {name: _setting(value) for name, value in zip(self._names, values, strict=True)}
        if found["cuda_seed"] is None:
            del found["cuda_seed"]
        return found


def _told(read: Callable[[], Any]) -> Any:
    """The value; None if both the older and the newer TF32 settings were used, because torch then returns neither."""
    try:
        return read()
    except RuntimeError:
        return None


def _setting(value: Any) -> Setting:
    """A value as stored in a trace."""
    if isinstance(value, tuple):  # Whether something is allowed, and whether in a split reduction, too.
        value = value[0]
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= _EXACT else str(value)
    return value if value is None or isinstance(value, (bool, float, str)) else str(value).removeprefix("torch.")


def _cuda_seed() -> int | None:
    """The seed of the current CUDA device; None before the program has used one."""
    if not torch.cuda.is_initialized():
        return None
    seed: int = torch.cuda.default_generators[torch.cuda.current_device()].initial_seed()
    return seed


def _default_device() -> str:
    """The default device, as set by the innermost `with torch.device(...)` or `torch.set_default_device`.

    Both push a mode. `torch.get_default_device` is not used, because it may create a tensor to find the device index.
    """
    for depth in reversed(range(torch._C._len_torch_function_stack())):
        mode = torch._C._get_function_stack_at(depth)
        if isinstance(mode, DeviceContext):
            return str(mode.device)
    return "cpu"


def autocast_now() -> str | None:
    """The devices for which autocast is on, each with its dtype; None if it is off."""
    is_any_enabled = getattr(torch._C, "_is_any_autocast_enabled", None)
    if is_any_enabled is not None and not is_any_enabled():
        return None
    words = [
        f"{device} {str(torch.get_autocast_dtype(device)).removeprefix('torch.')}"
        for device in (*_AUTOCAST_DEVICES, torch._C._get_privateuse1_backend_name())
        if torch.is_autocast_enabled(device)
    ]
    return ", ".join(words) or None
