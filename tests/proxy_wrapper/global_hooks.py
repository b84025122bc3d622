"""Whether torch is as it was: no hooks on all modules."""

from __future__ import annotations

import torch


def has_module_hooks() -> bool:
    """Whether a hook is registered that every module calls; torch has a function for it from 2.8 on."""
    modules = torch.nn.modules.module
    kinds = ("backward_pre", "backward", "forward_pre", "forward")
    return any(getattr(modules, f"_global_{kind}_hooks") for kind in kinds)
