"""The shard of a `DTensor` in this process, and its placement. Nothing here communicates."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from proxy_wrapper.values.describe import is_plain

if TYPE_CHECKING:
    import torch


def local_part(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor with this process's values: itself, or its part of a `DTensor`; None for other subclasses."""
    if is_plain(tensor):
        return tensor
    if not _is_distributed(tensor):
        return None
    # Not `to_local()`, which makes an autograd node, and may wait for other processes.
    part = cast("Any", tensor)._local_tensor
    return part if is_plain(part) else None


def placements_of(tensor: torch.Tensor) -> str:
    """How a `DTensor` is distributed, with a term for each dimension of its mesh; "" for any other tensor.

    "Replicate()", or "Shard(0)[1/4]" if this process has the second of four shards along dimension 0. Processes with
    equal placements hold the same values.
    """
    if is_plain(tensor) or not _is_distributed(tensor):
        return ""
    distributed: Any = tensor
    mesh = distributed.device_mesh
    coordinates = mesh.get_coordinate()
    words = []
    for dimension, placement in enumerate(distributed.placements):
        if placement.is_replicate():
            words.append("Replicate()")
            continue
        kind = f"Shard({placement.dim})" if placement.is_shard() else str(placement)
        place = coordinates[dimension] if coordinates is not None else "none"
        words.append(f"{kind}[{place}/{mesh.size(dimension)}]")
    return ", ".join(words)


def is_gathered(tensor: torch.Tensor, placements: str) -> bool:
    """Whether `tensor`, in place of a part with these placements, is the whole that FSDP gathers temporarily."""
    return "[" in placements and is_plain(tensor)


def _is_distributed(tensor: torch.Tensor) -> bool:
    # If nobody has imported it, there is no DTensor; importing it takes a second.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and type(tensor) is getattr(module, "DTensor", None)
