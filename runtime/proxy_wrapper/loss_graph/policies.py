"""Finds losses that lower the log-probabilities of rewarded actions, where they should raise them.

A policy loss is minimised, so log-probabilities times returns need a minus sign. The graph tells the sign with which
the log-probabilities of chosen actions are in the loss, but not that of returns, which are numbers. What these are is
told by their names, so such a pattern counts only with a line: see `code_lines/policy_products.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.loss_graph.critics import FOLLOWED, is_log_probability
from proxy_wrapper.loss_graph.nodes import (
    DIFFERENCE,
    MEANS,
    PRODUCT,
    QUOTIENT,
    SAME_ROWS,
    SCALED,
    SUMS,
    TOTALS,
    Output,
    input_at,
    inputs_of,
)
from proxy_wrapper.loss_graph.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

LOWERED: Final = "probability-lowered"

_NEGATED: Final = "NegBackward0"
_LOGSUMEXP: Final = "LogsumexpBackward0"
_REVERSED: Final = "RsubBackward1"
_COLLECTED: Final = frozenset({"StackBackward0", "CatBackward0"})
_MINIMUM: Final = frozenset({"MinimumBackward0"})
_PASSED: Final = SAME_ROWS | TOTALS | MEANS | SUMS | SCALED | _COLLECTED | _MINIMUM | {DIFFERENCE, _REVERSED, _NEGATED}
_MOST: Final = 512
_FARTHEST: Final = 12
_FEW: Final = 8
"""How many of the tensors in a stack are followed."""


def lowered_probabilities(graph: LossGraph) -> Iterator[Pattern]:
    """The pattern of a loss in which all log-probabilities of chosen actions that are weighted have a plus sign."""
    signs = set()
    pending = [(graph.root, 1)]
    for node, sign in pending:
        if len(pending) > _MOST:
            return
        if _is_weighted(node):
            signs.add(sign * _sign_within(inputs_of(node)[0]))
        elif node.name() in _PASSED:
            pending += [(each.node, sign * _sign_of(node, each)) for each in inputs_of(node)[:_FEW]]
    if signs == {1}:
        yield Pattern(LOWERED, ())


def _is_weighted(node: Any) -> bool:
    """Whether a node multiplies the log-probability of an action, or a ratio of policies, by a number.

    A product of a product is none: the inner one is.
    """
    inputs = inputs_of(node)
    if node.name() != PRODUCT or len(inputs) != 1:
        return False
    return is_log_probability(inputs[0]) and not _has_product(inputs[0])


def _has_product(value: Output) -> bool:
    """Whether sums lead to another weighted log-probability."""
    pending = [value]
    for each in pending:
        if len(pending) > _MOST or _is_weighted(each.node):
            return True
        pending += inputs_of(each.node)[:_FEW] if each.node.name() in _PASSED else ()
    return False


def _sign_within(value: Output) -> int:
    """The sign of the log-probability in a value that has one."""
    sign = 1
    for _ in range(_FARTHEST):
        name, inputs = value.node.name(), inputs_of(value.node)
        is_density = name == QUOTIENT and bool(inputs) and inputs[0].node.name() == _NEGATED
        is_normalised = name == DIFFERENCE and inputs[-1].node.name() == _LOGSUMEXP
        if name not in FOLLOWED | SCALED or is_density or is_normalised or not inputs:
            break
        sign *= _sign_of(value.node, inputs[0])
        value = inputs[0]
    return sign


def _sign_of(node: Any, value: Output) -> int:
    """The sign with which a node adds one of its inputs to its result."""
    if node.name() == _NEGATED:
        return -1
    if node.name() in (DIFFERENCE, _REVERSED):
        return -1 if input_at(node, 1 if node.name() == DIFFERENCE else 0) == value else 1
    return 1
