"""Views of a run that need the tensors themselves: graph, activations, sizes. `Proxy.trace` loads them when called.

`from proxy_views import bend, Mask, Scale` loads the functions that change results.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxy_views.bending import (
        Affine,
        BendingConfig,
        BendingError,
        BendingParameter,
        Bias,
        Callback,
        Capture,
        Lambda,
        Mask,
        Normal,
        OrderedMask,
        Permute,
        Scale,
        ThresholdActivation,
        Versions,
        bend,
    )

__all__ = [
    "Affine",
    "BendingConfig",
    "BendingError",
    "BendingParameter",
    "Bias",
    "Callback",
    "Capture",
    "Lambda",
    "Mask",
    "Normal",
    "OrderedMask",
    "Permute",
    "Scale",
    "ThresholdActivation",
    "Versions",
    "bend",
]


def __getattr__(name: str) -> Any:
    """A name of `proxy_views.bending`, loaded on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("proxy_views.bending"), name)
