"""Finds targets that have values which their loss is not made for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.loss_graph.nodes import (
    BINARY_LOSSES,
    LAYERS,
    LEAF,
    LOG_SOFTMAX,
    PRODUCT,
    SCALED,
    SOFTMAXES,
    SQUEEZED,
    TOTALS,
    VIEWS,
    inputs_of,
    node_before,
    node_behind,
    only_node_before,
    shape_of,
)
from proxy_wrapper.loss_graph.pattern import Pattern
from proxy_wrapper.loss_graph.saved_tensors import saved_number, saved_tensor
from proxy_wrapper.values.torch_functions import (
    aminmax,
    bitwise_xor,
    convert,
    is_equal,
    is_greater,
    item,
    logsumexp,
    numel,
    total,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

MULTI_HOT_PROBABILITIES: Final = "multi-hot-probabilities"

_SOFT_MARGIN: Final = "SoftMarginLossBackward0"
_WHERE: Final = "WhereBackward0"
_CLAMP: Final = "ClampMinBackward0"
_SAME_SCORES: Final = VIEWS | SQUEEZED | SCALED | {"ToCopyBackward0"}
"""The nodes that pass scores on unchanged or scaled."""
_FARTHEST: Final = 0.5
"""How far binary targets may lie outside 0 to 1: deliberate label smoothing goes up to 1.2."""
_ROUNDING: Final = 1e-2
"""How far the logarithm of a sum of probabilities may lie from 0, in half precision."""


def binary_targets(graph: LossGraph) -> Iterator[Pattern]:
    """Targets of a binary cross entropy that are not probabilities."""
    for node in graph.named(BINARY_LOSSES):
        targets = saved_tensor(node, "target")
        if targets is None or not numel(targets) or not targets.is_floating_point():
            continue
        lowest, highest = map(float, map(item, aminmax(targets)))
        if lowest < -_FARTHEST or highest > 1 + _FARTHEST:
            yield Pattern("binary-targets", tuple(targets.shape), values=(lowest, highest))


def targets_as_scores(graph: LossGraph) -> Iterator[Pattern]:
    """Binary cross entropies whose targets have a gradient, and whose scores have none.

    The targets must go into nothing else: some losses add the cross entropy of both directions.
    """
    for node in graph.named(BINARY_LOSSES):
        targets = node_before(node, 1)
        if node_before(node, 0) is None and targets is not None and len(graph.users(targets)) == 1:
            yield Pattern("targets-as-scores", shape_of(targets))


def class_targets_as_scores(graph: LossGraph) -> Iterator[Pattern]:
    """Cross entropies of constant scores with targets that are the output of a layer.

    Neither logits as targets nor fixed scores make sense. The output must go into nothing else.
    """
    for node in graph.named(("NegBackward0",)):
        summed = only_node_before(node)
        product = only_node_before(summed) if summed is not None and summed.name() in TOTALS else None
        if product is None or product.name() != PRODUCT or node_before(product, 0) is not None:
            continue
        targets, scores = node_before(product, 1), saved_tensor(product, "self")
        layer = node_behind(targets, VIEWS | SQUEEZED)
        if layer is None or not has_weight(layer) or len(graph.users(targets)) != 1:
            continue
        if scores is not None and numel(scores) and _are_log_probabilities(scores):
            yield Pattern("targets-as-scores", shape_of(targets))


def _are_log_probabilities(scores: torch.Tensor) -> bool:
    """Whether scores are the logarithms of probabilities that sum to 1 over the classes, the second dimension."""
    if len(scores.shape) < 2 or scores.shape[1] < 2 or not scores.is_floating_point():
        return False
    lowest, highest = map(float, map(item, aminmax(logsumexp(scores, 1))))
    return max(-lowest, highest) < _ROUNDING


def sign_targets(graph: LossGraph) -> Iterator[Pattern]:
    """Zeros among targets of which only the sign should matter."""
    for node in graph.named((_SOFT_MARGIN,)):
        targets = saved_tensor(node, "target")
        if targets is not None and numel(targets):
            zeros = numel(targets) - int(item(total(convert(targets, torch.bool))))
            if zeros:
                yield Pattern("sign-targets", tuple(targets.shape), values=(float(zeros), float(numel(targets))))


def pair_targets(graph: LossGraph) -> Iterator[Pattern]:
    """Targets of `cosine_embedding_loss` and `hinge_embedding_loss` that are neither 1 nor -1.

    Both losses add a term for matching pairs to a term for the others. A target of 1 or -1 selects exactly one of them;
    any other target selects neither or both.
    """
    for node in graph.named(("AddBackward0",)) if _WHERE in graph.names else ():
        yield from _of_pairs(node)


def _of_pairs(node: Any) -> Iterator[Pattern]:
    branches = [each.node for each in inputs_of(node) if each.node.name() == _WHERE]
    if len(branches) != 2:
        return
    if not _is_pair_loss(*(_first_before(branch) for branch in branches)):
        return
    first, second = (saved_tensor(branch, "condition") for branch in branches)
    if first is None or second is None or first.shape != second.shape:
        return
    wrong = numel(first) - int(item(total(bitwise_xor(first, second))))
    if wrong:
        yield Pattern("sign-targets", tuple(first.shape), values=(float(wrong), float(numel(first))))


def multi_hot_targets(graph: LossGraph) -> Iterator[Pattern]:
    """Targets of a softmax that are 0 and 1, with several ones in some rows and none in others.

    The softmax is that of `cross_entropy`, or its result goes into a binary cross entropy. The scores must come from a
    layer: similarities of vectors may rightly have several matches in a row.
    """
    for node in graph.named(("NegBackward0",)) if LOG_SOFTMAX in graph.names else ():
        yield from _of_class_scores(node)
    for node in graph.named(("BinaryCrossEntropyBackward0",)):
        yield from _of_probabilities(node)


def _of_class_scores(node: Any) -> Iterator[Pattern]:
    summed = only_node_before(node)
    product = only_node_before(summed) if summed is not None and summed.name() in TOTALS else None
    if product is None or product.name() != PRODUCT:
        return
    scores = node_before(product, 0)
    if scores is None or node_before(product, 1) is not None or scores.name() != LOG_SOFTMAX:
        return
    targets = saved_tensor(product, "other")
    if targets is not None and len(targets.shape) > 1 and _is_of_layer(scores):
        yield from _multi_hot("multi-hot-targets", targets, 1)


def _of_probabilities(node: Any) -> Iterator[Pattern]:
    softmax, targets = node_before(node, 0), saved_tensor(node, "target")
    dim = None if softmax is None or softmax.name() not in SOFTMAXES else saved_number(softmax, "dim")
    if dim is None or targets is None or tuple(targets.shape) != shape_of(softmax) or not _is_of_layer(softmax):
        return
    yield from _multi_hot(MULTI_HOT_PROBABILITIES, targets, dim % len(targets.shape))


def _is_of_layer(softmax: Any) -> bool:
    """Whether a softmax is that of the output of a layer."""
    layer = only_node_before(softmax)
    while layer is not None and layer.name() in _SAME_SCORES:
        layer = only_node_before(layer)
    return layer is not None and has_weight(layer)


def _multi_hot(what: str, targets: torch.Tensor, dim: int) -> Iterator[Pattern]:
    """The pattern if targets are 0 and 1, and have several ones in some rows along a dimension, and none in others."""
    if not targets.is_floating_point() or not is_equal(targets, convert(convert(targets, torch.bool), targets.dtype)):
        return
    ones = convert(total(targets, dim), torch.int64)
    several, none = int(item(total(is_greater(ones, 1)))), numel(ones) - int(item(total(is_greater(ones, 0))))
    if several and none:
        values = (float(several), float(none), float(numel(ones)))
        yield Pattern(what, tuple(targets.shape), dim=dim, values=values)


def has_weight(node: Any) -> bool:
    """Whether a node belongs to a layer whose weight is a leaf of the graph."""
    place = LAYERS.get(node.name())
    weight = None if place is None else node_before(node, place)
    while weight is not None and weight.name() in ("TBackward0", "ToCopyBackward0"):
        weight = only_node_before(weight)
    return weight is not None and weight.name() == LEAF


def _first_before(node: Any) -> Any:
    """The node that computed the first input that has a gradient."""
    return next((each.node for each in inputs_of(node)), None)


def _is_pair_loss(first: Any, second: Any) -> bool:
    """Whether one branch is clamped, and both use one similarity or distance, computed as torch does."""
    for clamped, other in ((first, second), (second, first)):
        if clamped is None or other is None or clamped.name() != _CLAMP:
            continue
        reduced = _first_before(clamped)
        source = None if reduced is None else _first_before(reduced)
        if source is None:
            continue
        if source is other:  # `hinge_embedding_loss` uses the distance unchanged.
            return True
        is_cosine = (
            other.name() == "SubBackward0" and _first_before(other) is source and source.name() == "DivBackward0"
        )
        divisor = node_before(source, 1) if is_cosine else None
        if (
            divisor is not None
            and divisor.name() == "SqrtBackward0"
            and _first_before(divisor).name() == "MulBackward0"
        ):
            return True
    return False
