"""Tells updates that half precision rounds away, from bounds of them and the spacing of its numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from proxy_trace.process.process_summary import TensorSummary
    from proxy_trace.process.training_summary import GroupSummary, OptimizerSummary

_FEWEST_STEPS: Final = 10
_MARGIN: Final = 8
"""How many times smaller than half the distance between numbers the updates must be.

By Chebyshev's inequality, at most one of 64 elements is 8 times larger than the root mean square.
"""


class _Format(NamedTuple):
    """A floating-point format: the bits of its mantissa, and the exponent of its smallest normal number."""

    mantissa: int
    smallest: int


_FORMATS: Final = {"float16": _Format(10, -14), "bfloat16": _Format(7, -126)}


def are_updates_lost(tensor: TensorSummary, optimizer: OptimizerSummary | None) -> bool:
    """Whether the updates of a weight in half precision were too small to change most of its elements.

    In no step did their root mean square reach an eighth of half the distance between the numbers around the root mean
    square of the elements.
    """
    kind = _FORMATS.get(tensor.type.partition("[")[0])
    count = math.prod(tensor.sizes)
    if kind is None or len(tensor.sizes) <= 1 or not count or not tensor.has_nonzero_gradient:
        return False
    if optimizer is None or optimizer.steps < _FEWEST_STEPS:
        return False
    norm = None if tensor.last_stepped is None else tensor.last_stepped.norm
    group = next((each for each in optimizer.groups if tensor.id in each.tensors), None)
    if not isinstance(norm, float) or not norm or group is None:
        return False
    size = norm / math.sqrt(count)
    update = _update(optimizer.name, group, tensor.largest_gradient_norm / math.sqrt(count), size)
    half = math.ldexp(0.5, max(math.frexp(size)[1] - 1, kind.smallest) - kind.mantissa)
    return update * _MARGIN <= half


def _update(optimizer: str, group: GroupSummary, gradient: float, size: float) -> float:
    """A bound of the root mean square of a weight's updates, given those of its gradients and elements.

    It is infinite for optimizers of which none is known. For Adam, see section 2.1 of Kingma and Ba, Adam: A Method for
    Stochastic Optimization, ICLR 2015.
    """
    settings, rate = group.settings, group.largest_rate
    decay = settings.get("weight_decay", 0.0)
    decayed = decay * size if isinstance(decay, (int, float)) else math.inf
    if optimizer == "SGD" and not settings.get("momentum"):
        return rate * (gradient + decayed)
    first, second = settings.get("betas.0"), settings.get("betas.1")
    if optimizer in ("Adam", "AdamW") and isinstance(first, float) and isinstance(second, float) and 0 <= second < 1:
        return rate * (max(1.0, (1 - first) / math.sqrt(1 - second)) + decayed)
    return math.inf
