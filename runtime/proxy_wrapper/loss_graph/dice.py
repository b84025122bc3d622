"""Finds Dice coefficients of scores that are no probabilities.

The coefficient of probabilities `p` and a mask of zeros and ones is `2 * (p * mask).sum() / (p.sum() + mask.sum())`. It
is between 0 and 1. For the scores of a layer it has no bounds, and a loss without a lower bound falls for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.loss_graph.arithmetic import squared
from proxy_wrapper.loss_graph.nodes import (
    PRODUCT,
    QUOTIENT,
    SAME_VALUES,
    SCALED,
    SUMS,
    TOTALS,
    Output,
    behind,
    input_at,
    inputs_of,
    shape_of,
)
from proxy_wrapper.loss_graph.pattern import Pattern
from proxy_wrapper.loss_graph.saved_tensors import saved_tensor
from proxy_wrapper.loss_graph.targets import has_weight
from proxy_wrapper.values.torch_functions import convert, is_equal, item, numel, total

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

DICE: Final = "dice-of-scores"

_SCALED: Final = SCALED | SUMS


def dice_of_scores(graph: LossGraph) -> Iterator[Pattern]:
    """The first Dice coefficient of the output of a layer and a mask that has ones and zeros."""
    for node in graph.named((QUOTIENT,)):
        above, below = input_at(node, 0), input_at(node, 1)
        if above is None or below is None:
            continue
        overlap, whole = _summed(above), _summed(below)
        if overlap is None or whole is None or overlap.node.name() != PRODUCT:
            continue
        inputs = inputs_of(overlap.node)
        scores = behind(inputs[0], SAME_VALUES)
        is_of_scores = len(inputs) == 1 and has_weight(scores.node)
        whole = squared(whole.node) or whole
        if is_of_scores and behind(whole, SAME_VALUES) == scores and _has_mask(overlap.node):
            yield Pattern(DICE, shape_of(scores.node))
            return


def _summed(value: Output) -> Output | None:
    """What a value is the sum of, times and plus constants; None if it is no such sum."""
    value = behind(value, _SCALED)
    inputs = inputs_of(value.node)
    return inputs[0] if value.node.name() in TOTALS and len(inputs) == 1 else None


def _has_mask(product: Any) -> bool:
    """Whether a product multiplies by a constant that has zeros and ones, and nothing else."""
    mask = saved_tensor(product, "other" if input_at(product, 0) is not None else "self")
    if mask is None or not numel(mask):
        return False
    bits = convert(mask, torch.bool)
    return 0 < int(item(total(bits))) < numel(mask) and is_equal(mask, convert(bits, mask.dtype))
