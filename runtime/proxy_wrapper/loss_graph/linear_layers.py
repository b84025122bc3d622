"""Finds linear layers whose input is the unchanged output of another linear layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.loss_graph.nodes import LEAF, node_before
from proxy_wrapper.loss_graph.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from proxy_wrapper.loss_graph.graph import LossGraph

_LINEAR: Final = {"AddmmBackward0": (1, 2), "MmBackward0": (0, 1)}
"""The nodes of linear layers: the positions of their input and their weight."""
_RESHAPED: Final = frozenset({"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "SqueezeBackward1"})
_OF_WEIGHT: Final = frozenset({"TBackward0", "ToCopyBackward0"})
_ACTIVATIONS: Final = frozenset(
    f"{name}Backward0"
    for name in (
        "Relu", "LeakyRelu", "Elu", "Celu", "Selu", "Gelu", "Silu", "Mish", "Softplus", "Tanh", "Sigmoid", "LogSigmoid",
        "Hardtanh", "Hardswish", "Hardsigmoid", "Threshold", "PreluKernel", "RreluWithNoise", "Glu", "Clamp", "Softmax",
        "Sin", "Cos", "Exp", "Pow", "MaxPool2DWithIndices", "AdaptiveMaxPool2D", "NativeLayerNorm", "NativeBatchNorm",
        "NativeGroupNorm", "MkldnnRnnLayer",
    )
)  # fmt: skip
"""The nodes of functions that are not linear, between layers."""


def linear_layers(graph: LossGraph) -> Iterator[Pattern]:
    """The pairs of such layers, with the number 1 if an activation follows any linear layer of the model, else 0."""
    for node in graph.named(_LINEAR):
        own = _weight(node)
        before = node_before(node, _LINEAR[node.name()][0])
        while before is not None and before.name() in _RESHAPED and len(graph.users(before)) == 1:
            before = node_before(before, 0)
        if own is None or before is None or before.name() not in _LINEAR or len(graph.users(before)) != 1:
            continue
        first = _weight(before)
        if first is not None:
            activated = float(_has_activation(graph))
            yield Pattern("linear-linear", (), values=(activated,), weights=(first, own))


def _weight(node: Any) -> torch.Tensor | None:
    """The leaf that is the weight of a linear layer; None if a product has no such weight."""
    weight = node_before(node, _LINEAR[node.name()][1])
    is_transposed = False
    while weight is not None and weight.name() in _OF_WEIGHT:
        is_transposed |= weight.name() == "TBackward0"
        weight = node_before(weight, 0)
    if weight is None or weight.name() != LEAF or not is_transposed:
        return None
    leaf: torch.Tensor = weight.variable
    return leaf


def _has_activation(graph: LossGraph) -> bool:
    """Whether any linear layer in a graph follows a nonlinear function."""
    pending = graph.named(_LINEAR)
    below = set(pending)
    for node in pending:
        for following, _ in node.next_functions:
            if following is not None and following in graph and following not in below:
                if following.name() in _ACTIVATIONS:
                    return True
                below.add(following)
                pending.append(following)
    return False
