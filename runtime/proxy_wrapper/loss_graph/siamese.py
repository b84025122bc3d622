"""Finds losses that train two views of a sample to predict each other, with gradients on both sides.

z1, z2 = f(x1), f(x2)
p1, p2 = h(z1), h(z2)
loss = -(cosine_similarity(p1, z2) + cosine_similarity(p2, z1)).mean() / 2      # where `z2.detach()` was meant

A constant is then the best output. Nothing keeps a model from it but the missing gradient of one side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.loss_graph.arithmetic import terms_of
from proxy_wrapper.loss_graph.nodes import (
    ERRORS,
    MEANS,
    PRODUCT,
    QUOTIENT,
    SAME_VALUES,
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

SIAMESE: Final = "views-not-detached"

_REDUCED: Final = MEANS | TOTALS | SAME_VALUES
_MOST_TERMS: Final = 16
_MOST_NODES: Final = 4096


class _Compared(NamedTuple):
    """The nodes of the two outputs that a term of the loss compares, element by element."""

    one: Any
    other: Any


def views_not_detached(graph: LossGraph) -> Iterator[Pattern]:
    """The loss, if each of its terms compares a prediction from one view with another view, and both have a gradient.

    The prediction is computed from the other output of the reverse comparison, and that has the same loss.
    """
    compared = _terms(graph.root)
    if len(compared) < len(("one way", "and back")):
        return
    below = {node: _below(node) for pair in compared for node in pair}
    if all(any(_are_reverse(one, other, below) for other in compared) for one in compared):
        yield Pattern(SIAMESE, shape_of(compared[0].one))


def _terms(root: Any) -> list[_Compared]:
    """What each term of a loss compares; [] if some term compares nothing, or if there are too many."""
    found: list[_Compared] = []
    pending = [Output(root, 0)]
    for value in pending:
        reduced = behind(value, _REDUCED)
        inputs = [_direction(each).node for each in inputs_of(reduced.node)]
        if reduced.node.name() in (PRODUCT, *ERRORS) and len(inputs) == len(("one", "other")):
            found.append(_Compared(*inputs))
            continue
        terms = [each for each in terms_of(reduced) if each != reduced]
        if not terms or len(pending) + len(terms) > _MOST_TERMS:
            return []
        pending += terms
    return found


def _direction(value: Output) -> Output:
    """A vector before it is divided by its norm."""
    value = behind(value, SAME_VALUES)
    first = input_at(value.node, 0) if value.node.name() == QUOTIENT else None
    return value if first is None else behind(first, SAME_VALUES)


def _below(node: Any) -> set[Any]:
    """The nodes from which a node computes its result, without itself."""
    seen: set[Any] = set()
    pending = [node]
    for each in pending:
        for following, _ in each.next_functions:
            if following is not None and following not in seen and len(pending) < _MOST_NODES:
                seen.add(following)
                pending.append(following)
    return seen


def _are_reverse(first: _Compared, second: _Compared, below: dict[Any, set[Any]]) -> bool:
    """Whether one comparison has a prediction from what the other one compares with its prediction."""
    return any(
        target in below[back] and goal in below[prediction] and target not in below[prediction]
        for prediction, target in (first, first[::-1])
        for back, goal in (second, second[::-1])
        if prediction is not back
    )
