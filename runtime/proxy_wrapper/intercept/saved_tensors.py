"""Reads what the nodes of an autograd graph have saved for the backward pass.

The program may have set hooks for a saved tensor: to read it would call them. What a checkpoint has saved would be
computed anew, and what was moved to the host moved back. So a tensor with such a hook is not read. Versions of PyTorch
that do not tell of hooks give no tensor at all.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from proxy_wrapper.values.statistics import has_values, is_hosted
from proxy_wrapper.values.torch_functions import numel

_LARGEST: Final = 1 << 22
"""How many elements a tensor may have."""


def saved_tensor(node: Any, name: str) -> torch.Tensor | None:
    """What a node has saved under a name; None if nothing, or if it is large, not on the CPU, or has a hook.

    To be called where no mode sees it.
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
    """A whole number or a truth value that a node has saved; None if it has none."""
    found: Any = getattr(node, f"_saved_{name}", None)
    return int(found) if type(found) in (int, bool) else None
