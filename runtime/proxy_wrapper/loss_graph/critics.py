"""Finds errors of a critic that train the actor's weights and the critic at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.loss_graph.arithmetic import SQUARES, squared
from proxy_wrapper.loss_graph.nodes import (
    DIFFERENCE,
    ERRORS,
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
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.loss_graph.graph import LossGraph

ERROR: Final = "error-not-detached"

_SOFTMAX: Final = "SoftmaxBackward0"
_NEGATED: Final = "NegBackward0"
_CLAMPED: Final = frozenset({"ClampBackward0", "ClampBackward1"})
FOLLOWED: Final = (
    SAME_ROWS | TOTALS | MEANS | SUMS | {"StackBackward0", DIFFERENCE, "ExpBackward0", _NEGATED, "GatherBackward0"}
)
_CHOICES: Final = frozenset({"GatherBackward0", "IndexBackward0", "SelectBackward0"})
_LOG_PROBABILITIES: Final = frozenset({"LogsumexpBackward0", LOG_SOFTMAX})
_DIFFERENCES_AND_SUMS: Final = SUMS | {DIFFERENCE, "RsubBackward1"}
_LINEAR: Final = _DIFFERENCES_AND_SUMS | TOTALS | MEANS | {_NEGATED, "StackBackward0", "CatBackward0"}
_MOST_TERMS: Final = 4096
_FARTHEST: Final = 12
"""The most nodes between a product and the log-probability in it."""


class _Terms(NamedTuple):
    """The terms of a sum that have a gradient, and whether it has others."""

    values: frozenset[Output]
    has_constants: bool


def errors_not_detached(graph: LossGraph) -> Iterator[Pattern]:
    """The first error of a critic that is trained on it, and that weights log-probabilities without being detached.

    An error is a sum of values of the critic and of numbers without a gradient, such as rewards. The loss of the critic
    has some of the same values.
    """
    for node in graph.named((PRODUCT,)):
        inputs = inputs_of(node)
        if len(inputs) != 2 or inputs[0] == inputs[1]:
            continue
        for policy, weight in (inputs, inputs[::-1]):
            terms = _terms(weight)
            if not terms.has_constants or not is_log_probability(policy):
                continue
            losses = graph.named({*ERRORS, *SQUARES})
            if any(not terms.values.isdisjoint(_terms(value).values) for each in losses for value in _compared(each)):
                yield Pattern(ERROR, shape_of(node))
                return


def _terms(value: Output) -> _Terms:
    """The terms of a sum, whatever their factors and shapes; none if there are too many."""
    values: set[Output] = set()
    has_constants = False
    pending = [value]
    seen = {value}
    for each in pending:
        if len(pending) > _MOST_TERMS:
            return _Terms(frozenset(), has_constants=False)
        term = behind(each, SAME_ROWS)
        name, inputs = term.node.name(), inputs_of(term.node)
        if name in _LINEAR or (name in SCALED and len(inputs) == 1):
            has_constants |= name in _DIFFERENCES_AND_SUMS and len(inputs) < len(term.node.next_functions)
        elif name == QUOTIENT and input_at(term.node, 0) is not None:  # Standardised.
            inputs = inputs[:1]
        else:
            values.add(term)
            continue
        pending += [before for before in inputs if before not in seen]
        seen.update(inputs)
    return _Terms(frozenset(values), has_constants)


def _compared(node: Any) -> Sequence[Output]:
    """The values whose distance a loss computes; () for other nodes."""
    if node.name() in ERRORS:
        return inputs_of(node)
    value = squared(node)
    return () if value is None else (value,)


def is_log_probability(value: Output) -> bool:
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
        if first is not None and (is_scaled or name in FOLLOWED):
            pending.append((first, is_chosen or name in _CHOICES))
    return False


def _is_of_probabilities(value: Output) -> bool:
    found = behind(value, _CLAMPED).node
    inputs = inputs_of(found)
    return found.name() == _SOFTMAX or (found.name() == QUOTIENT and bool(inputs) and inputs[0].node.name() == _SOFTMAX)
