"""What tells, without a look at its values, that a tensor may have changed."""

from __future__ import annotations

import torch

from proxy_wrapper.values.describe import PLAIN
from proxy_wrapper.values.distributed_tensors import local_part
from proxy_wrapper.values.torch_functions import data_ptr


def version_of(tensor: torch.Tensor) -> int:
    """Torch's count of in-place changes to `tensor`; -1 where it keeps none."""
    try:
        if type(tensor) in PLAIN:
            return tensor._version
        with torch._C.DisableTorchFunctionSubclass():
            return tensor._version
    except RuntimeError:  # Made in inference mode.
        return -1


def marks_of(tensor: torch.Tensor) -> tuple[int, int]:
    """What `version_of` and `data_ptr_of` say of `tensor`."""
    try:
        if type(tensor) in PLAIN:
            return tensor._version, data_ptr(tensor)  # Nearly always; each step asks for all parameters.
    except (RuntimeError, NotImplementedError):  # It lacks one of the two.
        return version_of(tensor), data_ptr_of(tensor)
    return version_of(tensor), data_ptr_of(tensor)


def data_ptr_of(tensor: torch.Tensor) -> int:
    """The address of the values; 0 where they have none that can be asked for without consequences."""
    part = tensor if type(tensor) in PLAIN else local_part(tensor)
    if part is None:
        return 0
    try:
        return data_ptr(part)
    except (RuntimeError, NotImplementedError):  # Sparse, functorch's, or without storage.
        return 0
