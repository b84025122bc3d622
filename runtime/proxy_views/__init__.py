"""Views of a run that need the values themselves: a graph, activations, sizes. `Proxy.trace` loads them when called.

`from proxy_views import bend, Mask, Scale` loads what changes results.
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
    """What `proxy_views.bending` has, loaded when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("proxy_views.bending"), name)
