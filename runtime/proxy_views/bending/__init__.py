"""Changes what a model computes while it runs, reversibly: `bend`, and the callbacks for it."""

from proxy_views.bending.affine import Affine, Bias, Scale
from proxy_views.bending.callback import Callback, Chain, Place
from proxy_views.bending.capture import Capture, Lambda
from proxy_views.bending.configuration import BendingConfig
from proxy_views.bending.errors import BendingError
from proxy_views.bending.handle import Handle, bend
from proxy_views.bending.masks import Mask, OrderedMask, ThresholdActivation
from proxy_views.bending.noise import Normal, Permute
from proxy_views.bending.parameter import BendingParameter
from proxy_views.bending.versions import Versions

__all__ = [
    "Affine",
    "BendingConfig",
    "BendingError",
    "BendingParameter",
    "Bias",
    "Callback",
    "Capture",
    "Chain",
    "Handle",
    "Lambda",
    "Mask",
    "Normal",
    "OrderedMask",
    "Permute",
    "Place",
    "Scale",
    "ThresholdActivation",
    "Versions",
    "bend",
]
