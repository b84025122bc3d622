"""What tells, without a look at its values, that a tensor may have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_wrapper.describe import PLAIN
from proxy_wrapper.distributed_tensors import local_part

if TYPE_CHECKING:
    import torch


def version_of(tensor: torch.Tensor) -> int:
    """Torch's count of in-place changes to `tensor`; -1 where it keeps none."""
    try:
        return tensor._version
    except RuntimeError:  # Made in inference mode.
        return -1


def data_ptr_of(tensor: torch.Tensor) -> int:
    """The address of the values; 0 where they have none that can be asked for without consequences."""
    part = tensor if type(tensor) in PLAIN else local_part(tensor)
    if part is None:
        return 0
    try:
        return part.data_ptr()
    except (RuntimeError, NotImplementedError):  # Sparse, functorch's, or without storage.
        return 0
