"""Finds errors of a critic that train the actor's weights and the critic at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.loss_graph.arithmetic import SQUARES, squared
from proxy_wrapper.loss_graph.nodes import (
    DIFFERENCE,
    LOG_SOFTMAX,
    MEANS,
    PRODUCT,
    QUOTIENT,
    SAME_ROWS,
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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

ERROR: Final = "error-not-detached"

_SOFTMAX: Final = "SoftmaxBackward0"
_NEGATED: Final = "NegBackward0"
_CLAMPED: Final = frozenset({"ClampBackward0", "ClampBackward1"})
_ERRORS: Final = ("MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0")
_FOLLOWED: Final = (
    SAME_ROWS | TOTALS | MEANS | SUMS | {"StackBackward0", DIFFERENCE, "ExpBackward0", _NEGATED, "GatherBackward0"}
)
_CHOICES: Final = frozenset({"GatherBackward0", "IndexBackward0", "SelectBackward0"})
_LOG_PROBABILITIES: Final = frozenset({"LogsumexpBackward0", LOG_SOFTMAX})
_FARTHEST: Final = 12
"""The most nodes that are followed along one path of a formula."""


def errors_not_detached(graph: LossGraph) -> Iterator[Pattern]:
    """The first error in a critic's loss that also weights log-probabilities without being detached."""
    for node in graph.named((PRODUCT,)):
        inputs = inputs_of(node)
        if len(inputs) != 2 or inputs[0] == inputs[1]:
            continue
        for policy, weight in (inputs, inputs[::-1]):
            error = _error(weight)
            if error is None or not _is_log_probability(policy):
                continue
            predicted = behind(inputs_of(error.node)[-1], SAME_ROWS)
            if any(_is_loss_of(each, error, predicted) for each in graph.named({*_ERRORS, *SQUARES})):
                yield Pattern(ERROR, shape_of(error.node))
                return


def _error(weight: Output) -> Output | None:
    """The difference that a weight was computed from, standardised or not; None if there is none."""
    for _ in range(_FARTHEST):
        weight = behind(weight, SAME_ROWS)
        name, first, second = weight.node.name(), input_at(weight.node, 0), input_at(weight.node, 1)
        is_standardised = name == QUOTIENT and second is not None
        if first is not None and (name == _NEGATED or is_standardised):
            weight = first
        elif name == DIFFERENCE:
            is_centred = first is not None and second is not None and _is_mean_of(second, first)
            if not is_centred:
                return weight
            weight = first if first is not None else weight
        else:
            return None
    return None


def _is_mean_of(mean: Output, of: Output) -> bool:
    return mean.node.name() in MEANS and input_at(mean.node, 0) == of


def _is_log_probability(value: Output) -> bool:
    """Whether a value is the log-probability of a chosen action."""
    pending = [(value, False)]
    for each, is_chosen in pending:
        if len(pending) > _FARTHEST:
            break
        name, inputs = each.node.name(), inputs_of(each.node)
        first = inputs[0] if inputs else None
        if is_chosen and (
            name in _LOG_PROBABILITIES
            or (name == DIFFERENCE and len(inputs) == 2 and inputs[1].node.name() in _LOG_PROBABILITIES)
            or (name == "LogBackward0" and first is not None and _is_of_probabilities(first))
        ):
            return True
        if name == QUOTIENT and first is not None and first.node.name() == _NEGATED:
            distance = squared(inputs_of(first.node)[0].node)
            if distance is not None and distance.node.name() == DIFFERENCE and input_at(distance.node, 0) is None:
                return True  # The density of a normal distribution, at a value that has no gradient.
        is_scaled = name in SCALED and len(inputs) == 1
        if first is not None and (is_scaled or name in _FOLLOWED):
            pending.append((first, is_chosen or name in _CHOICES))
    return False


def _is_of_probabilities(value: Output) -> bool:
    found = behind(value, _CLAMPED).node
    inputs = inputs_of(found)
    return found.name() == _SOFTMAX or (found.name() == QUOTIENT and bool(inputs) and inputs[0].node.name() == _SOFTMAX)


def _is_loss_of(node: Any, error: Output, predicted: Output) -> bool:
    """Whether a node computes a loss from an error, or from the prediction in it."""
    if node.name() in _ERRORS:
        return any(behind(each, SAME_ROWS) in (error, predicted) for each in inputs_of(node))
    value = squared(node)
    if value is None:
        return False
    value = behind(value, SAME_ROWS)
    if value == error:
        return True
    inputs = inputs_of(value.node)
    is_error = value.node.name() == DIFFERENCE and len(inputs) == 1
    return is_error and behind(inputs[0], SAME_ROWS) == predicted
