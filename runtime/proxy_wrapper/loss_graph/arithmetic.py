"""Reads arithmetic from the nodes of a graph: squares, scalar factors and the terms of sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.loss_graph.nodes import DIFFERENCE, PRODUCT, QUOTIENT, SCALED, SUMS, Output, input_at, inputs_of
from proxy_wrapper.loss_graph.saved_tensors import saved_tensor
from proxy_wrapper.values.torch_functions import item, numel

if TYPE_CHECKING:
    import torch

_POWER: Final = "PowBackward0"
_SQUARE: Final = 2
SQUARES: Final = frozenset({_POWER, PRODUCT})
"""The nodes that may square a value."""
_MOST_TERMS: Final = 16


def squared(node: Any) -> Output | None:
    """The value that a node squares; None if it squares nothing."""
    name, inputs = node.name(), inputs_of(node)
    if name == _POWER and len(inputs) == 1 and getattr(node, "_saved_exponent", None) == _SQUARE:
        return inputs[0]
    return inputs[0] if name == PRODUCT and len(inputs) == _SQUARE and inputs[0] == inputs[1] else None


def factor_of(node: Any) -> float | None:
    """The scalar that a product or a quotient multiplies its input by; None if it is not a single number."""
    if len(inputs_of(node)) != 1 or input_at(node, 0) is None:
        return None
    other: torch.Tensor | None = saved_tensor(node, "other")
    if other is None or numel(other) != 1 or other.dim():
        return None
    number = float(item(other))
    if node.name() == QUOTIENT:
        return 1 / number if number else None
    return number


def terms_of(root: Output) -> dict[Output, float]:
    """The terms of a sum, each with its factor; {} if a factor is unknown, or if there are too many terms."""
    terms: dict[Output, float] = {}
    pending = [(root, 1.0)]
    for value, factor in pending:
        if len(pending) > _MOST_TERMS:
            return {}
        node, name = value.node, value.node.name()
        first, second = input_at(node, 0), input_at(node, 1)
        own = factor_of(node) if name in SCALED else None
        if name == DIFFERENCE or name in SUMS:
            if getattr(node, "_saved_alpha", 1) != 1:
                return {}
            pending += [(first, factor)] if first is not None else []
            pending += [(second, -factor if name == DIFFERENCE else factor)] if second is not None else []
        elif name in ("RsubBackward1", "NegBackward0") and first is not None:
            if getattr(node, "_saved_alpha", 1) != 1:
                return {}
            pending.append((first, -factor))
        elif own is not None and first is not None:
            pending.append((first, factor * own))
        else:
            terms[value] = terms.get(value, 0.0) + factor
    return terms
