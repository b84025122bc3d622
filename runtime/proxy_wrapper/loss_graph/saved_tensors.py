"""Reads what the nodes of an autograd graph have saved for the backward pass.

Reading a saved tensor calls the program's unpack hooks, if it has any: a checkpoint would recompute it, an offloaded
tensor would be copied back. So a tensor with such a hook is not read. Versions of PyTorch that do not reveal hooks
give no tensor at all.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from proxy_wrapper.values.statistics import has_values, is_hosted
from proxy_wrapper.values.torch_functions import numel

_LARGEST: Final = 1 << 22
"""The most elements of a tensor that is read."""


def saved_tensor(node: Any, name: str) -> torch.Tensor | None:
    """The tensor that a node has saved under a name; None if there is none, or it is large, not on the CPU, or hooked.

    Call it where no mode is active.
    """
    try:
        raw = getattr(node, f"_raw_saved_{name}", None)
        if getattr(raw, "unpack_hook", raw) is not None:
            return None
        found = getattr(node, f"_saved_{name}", None)
    except RuntimeError:  # Freed, or changed in place since.
        return None
    if not isinstance(found, torch.Tensor) or not has_values(found):
        return None
    return found if is_hosted(found) and numel(found) <= _LARGEST else None


def saved_number(node: Any, name: str) -> int | None:
    """An int or bool that a node has saved, as an int; None if there is none. Nodes give -1 as 2**64 - 1."""
    found: Any = getattr(node, f"_saved_{name}", None)
    if type(found) not in (int, bool):
        return None
    return int(found) - (1 << 64) if found >= 1 << 63 else int(found)
