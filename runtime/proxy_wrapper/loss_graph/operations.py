"""Finds the operation that made a non-finite value, or that has no finite derivative, among those nearest to a result.

The nodes of an autograd graph have saved what their derivative is computed from. That shows a square root of 0, whose
derivative is infinite, or a division by 0, before the backward pass frees it.
"""

from __future__ import annotations

from math import inf, isinf, isnan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from proxy_wrapper.loss_graph.nodes import SOFTMAXES, sequence_number
from proxy_wrapper.loss_graph.saved_tensors import saved_tensor
from proxy_wrapper.values.torch_functions import aminmax, convert, is_floating_point, item, numel, total

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MOST_NODES: Final = 64
_MOST_NODES_ONCE: Final = 512
"""The most nodes that are searched once, for the origin of the first non-finite value."""
_MOST_READ: Final = 6
_LARGEST: Final = 1 << 16
"""The most elements that are read before each backward pass."""


class _Kind(NamedTuple):
    """How to tell from the lowest and the highest of the saved values that an operation went wrong."""

    operation: str
    saved: str
    is_result_wrong: Callable[[float, float], bool]
    is_derivative_wrong: Callable[[float, float], bool]


def _is_infinite(lowest: float, highest: float) -> bool:
    return isinf(lowest) or isinf(highest)


def _is_nan(lowest: float, highest: float) -> bool:
    return isnan(lowest) or isnan(highest)


def _never(_lowest: float, _highest: float) -> bool:
    return False


def _is_at_least_one(lowest: float, highest: float) -> bool:
    return max(-lowest, highest) >= 1


def _is_above_one(lowest: float, highest: float) -> bool:
    return max(-lowest, highest) > 1


def _is_not_positive(lowest: float, _highest: float) -> bool:
    return lowest <= 0


def _is_negative(lowest: float, _highest: float) -> bool:
    return lowest < 0


def _begins_at_zero(lowest: float, _highest: float) -> bool:
    return lowest == 0


_POWER: Final = "PowBackward0"
_KINDS: Final = {
    "SqrtBackward0": _Kind("sqrt", "result", _is_nan, _begins_at_zero),
    "RsqrtBackward0": _Kind("rsqrt", "result", _is_infinite, _is_infinite),
    "ReciprocalBackward0": _Kind("reciprocal", "result", _is_infinite, _is_infinite),
    "ExpBackward0": _Kind("exp", "result", _is_infinite, _is_infinite),
    "LogBackward0": _Kind("log", "self", _is_not_positive, _is_not_positive),
    "AcosBackward0": _Kind("acos", "self", _is_above_one, _is_at_least_one),
    "AsinBackward0": _Kind("asin", "self", _is_above_one, _is_at_least_one),
    "SoftmaxBackward0": _Kind("softmax", "result", _is_nan, _is_nan),
    _POWER: _Kind("pow", "self", _is_negative, _begins_at_zero),
    "DivBackward0": _Kind("div", "other", _never, _never),
}
"""For each kind of node, what tells. A division has its own test, because 0 may lie between its divisors. A power is
judged if its exponent is a number between 0 and 1, as that of a root."""


def delicate_nodes(root: Any) -> list[Any]:
    """The nodes nearest to a result whose operation may have no finite derivative, the nearest first.

    A softmax is none of them: it has a derivative wherever it has a result.
    """
    return [node for node in _nearest(root, _MOST_NODES) if node.name() not in SOFTMAXES][:_MOST_READ]


def without_derivative(nodes: Sequence[Any]) -> str:
    """The first operation among some nodes whose derivative is not finite, such as "sqrt"; "" if there is none.

    Call it where nothing observes, before the backward pass begins. Only nodes that have saved tensors on the CPU are
    judged.
    """
    return next((_KINDS[node.name()].operation for node in nodes if _is_wrong(node, of_derivative=True)), "")


def without_result(root: Any) -> str:
    """The earliest operation behind a non-finite result that gave one from finite values; "" if none is found."""
    wrong = [node for node in _nearest(root, _MOST_NODES_ONCE) if _is_wrong(node, of_derivative=False)]
    return _KINDS[min(wrong, key=sequence_number).name()].operation if wrong else ""


def _nearest(root: Any, most: int) -> list[Any]:
    """The nodes of some kinds among those nearest to a result."""
    pending, seen = [root], {root}
    for node in pending:
        for following, _ in node.next_functions:
            if following is not None and following not in seen and len(pending) < most:
                seen.add(following)
                pending.append(following)
    return [node for node in pending if node.name() in _KINDS and (node.name() != _POWER or 0 < _exponent(node) < 1)]


def _is_wrong(node: Any, *, of_derivative: bool) -> bool:
    kind = _KINDS[node.name()]
    saved = saved_tensor(node, kind.saved)
    if saved is None or not numel(saved) or not is_floating_point(saved):
        return False
    if of_derivative and numel(saved) > _LARGEST:
        return False
    if kind.operation == "div":
        return int(item(total(convert(saved, torch.bool)))) < numel(saved)
    lowest, highest = map(float, map(item, aminmax(saved)))
    if kind.saved == "self" and (isnan(lowest) or lowest == -inf):  # It was not finite before.
        return False
    return (kind.is_derivative_wrong if of_derivative else kind.is_result_wrong)(lowest, highest)


def _exponent(node: Any) -> float:
    exponent: Any = getattr(node, "_saved_exponent", None)
    return float(exponent) if type(exponent) in (int, float) else 1.0
