"""torchvision's models, also where its compiled part was built for another torch than the one that is there."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

import torch

_OPERATORS: Final = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    (
        "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width,"
        " int sampling_ratio, bool aligned) -> Tensor"
    ),
)
_DECLARED: Final[list[torch.library.Library]] = []


def load() -> Any:
    """The package `torchvision.models`.

    Its import asks for operators of the compiled part, which none of the models that are tried here calls. Where that
    part does not load they are declared, and nothing more.
    """
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "FRAGMENT")
    for each in _OPERATORS:
        library.define(each)
    _DECLARED.append(library)
    return importlib.import_module("torchvision.models")
