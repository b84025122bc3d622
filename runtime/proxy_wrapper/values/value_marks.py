"""Indicators that a tensor may have changed, found without reading its values."""

from __future__ import annotations

import torch

from proxy_wrapper.values.describe import PLAIN
from proxy_wrapper.values.distributed_tensors import local_part
from proxy_wrapper.values.torch_functions import data_ptr


def version_of(tensor: torch.Tensor) -> int:
    """Torch's count of in-place changes to `tensor`; -1 if it has none."""
    try:
        if type(tensor) in PLAIN:
            return tensor._version
        with torch._C.DisableTorchFunctionSubclass():
            return tensor._version
    except RuntimeError:  # Created in inference mode.
        return -1


def marks_of(tensor: torch.Tensor) -> tuple[int, int]:
    """The results of `version_of` and `data_ptr_of` for `tensor`."""
    try:
        if type(tensor) in PLAIN:
            return tensor._version, data_ptr(tensor)  # The common case, for all parameters in each step.
    except (RuntimeError, NotImplementedError):  # It lacks one of the two.
        return version_of(tensor), data_ptr_of(tensor)
    return version_of(tensor), data_ptr_of(tensor)


def data_ptr_of(tensor: torch.Tensor) -> int:
    """The address of the values; 0 if there is none that can be read without side effects."""
    part = tensor if type(tensor) in PLAIN else local_part(tensor)
    if part is None:
        return 0
    try:
        return data_ptr(part)
    except (RuntimeError, NotImplementedError):  # Sparse, functorch's, or without storage.
        return 0
