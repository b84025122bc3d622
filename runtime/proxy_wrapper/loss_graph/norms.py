"""Finds rows that are compared after they were divided by the norm of the whole matrix, or of each column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.loss_graph.arithmetic import squared
from proxy_wrapper.loss_graph.nodes import (
    DIFFERENCE,
    LOG_SOFTMAX,
    MATRIX_PRODUCTS,
    PRODUCT,
    QUOTIENT,
    SAME_ROWS,
    SCALED,
    SUMS,
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

NORM: Final = "norm-of-batch"

_MATRIX: Final = 2
_NORMS: Final = frozenset({"LinalgVectorNormBackward0", "NormBackward0", "NormBackward1"})
_ROOT: Final = "SqrtBackward0"
_ROOT_OF_SUM: Final = frozenset({_ROOT, "SumBackward0", "AddBackward0"})
_ROW_SUM: Final = "SumBackward1"
_DISTANCES: Final = frozenset({"CdistBackward0", "EuclideanDistBackward0"})
_AT_LEAST: Final = SUMS | {"ClampBackward0", "ClampBackward1", "ClampMinBackward0"}
_SHIFTED: Final = SUMS | {DIFFERENCE, "SubBackward1", "MaskedFillBackward0"}
_FARTHEST: Final = 12
"""The most nodes between a product and a softmax over it."""


def norms_of_batches(graph: LossGraph) -> Iterator[Pattern]:
    """The first distances or similarities of rows that were divided by the norm of the whole matrix or of columns."""
    by_whole = {node for node in graph.named((QUOTIENT,)) if _is_divided_by_whole(node)}
    by_columns = {node for node in graph.named((QUOTIENT,)) if _is_divided_by_columns(node)}
    for node in graph.named({LOG_SOFTMAX, _ROW_SUM, *_DISTANCES, *_NORMS}) if by_whole or by_columns else ():
        compared = _compared(node, node.name())
        is_softmax = node.name() == LOG_SOFTMAX
        divided = by_whole | by_columns if is_softmax else by_whole
        factors = [_before_scaling(each).node for each in compared]
        found = [each for each in factors if each in divided]
        others = [each for each in factors if each not in divided]
        if not found or not all(is_softmax and _is_divided_by_rows(each) for each in others):
            continue
        if by_columns.isdisjoint(found) or _is_of_rows(node, factors):
            yield Pattern(NORM, shape_of(found[0]))
            return


def _is_divided_by_whole(node: Any) -> bool:
    """Whether a node divides a matrix by its own norm."""
    shape, above, below = shape_of(node), input_at(node, 0), input_at(node, 1)
    if above is None or below is None or len(shape) != _MATRIX or min(shape) < _MATRIX:
        return False
    below = behind(below, _AT_LEAST)
    if any(size != 1 for size in shape_of(below.node)):
        return False
    name = below.node.name()
    if name == _ROOT:
        below = behind(below, _ROOT_OF_SUM)
        if squared(below.node) is None:
            return False
        return squared(below.node) == above
    return name in _NORMS and input_at(below.node, 0) == above


def _is_divided_by_columns(node: Any) -> bool:
    """Whether a node divides each column of a matrix by its norm, as `F.normalize(x, dim=0)` does.

    Columns of which the mean was subtracted are left out: they are standardised, as by a batch norm. A squared
    distance of rows counts for nothing, because its sum is that of columns.
    """
    shape, above, below = shape_of(node), input_at(node, 0), input_at(node, 1)
    if above is None or below is None or len(shape) != _MATRIX or min(shape) < _MATRIX:
        return False
    below = behind(below, _AT_LEAST | {"ExpandBackward0"})
    is_of_columns = shape_of(below.node) in ((1, shape[1]), (shape[1],)) and shape[0] != shape[1]
    is_centred = above.node.name() == DIFFERENCE
    return is_of_columns and not is_centred and below.node.name() in _NORMS and input_at(below.node, 0) == above


def _is_divided_by_rows(node: Any) -> bool:
    """Whether a node divides each row of a matrix by its norm, as `F.normalize(x, dim=1)` does."""
    shape, above, below = shape_of(node), input_at(node, 0), input_at(node, 1)
    if node.name() != QUOTIENT or above is None or below is None or len(shape) != _MATRIX:
        return False
    below = behind(below, _AT_LEAST | {"ExpandBackward0"})
    is_of_rows = shape_of(below.node) == (shape[0], 1)
    return is_of_rows and below.node.name() in _NORMS and input_at(below.node, 0) == above


def _before_scaling(value: Output) -> Output:
    """The value before nodes that select rows, transpose, or multiply by a number, which may be learned."""
    for _ in range(_FARTHEST):
        value = behind(value, SAME_ROWS)
        inputs = [each for each in inputs_of(value.node) if shape_of(each.node) == shape_of(value.node)]
        if value.node.name() != PRODUCT or len(inputs) != 1:
            break
        (value,) = inputs
    return value


def _compared(node: Any, name: str) -> Sequence[Output]:
    """The two matrices whose rows a node compares; () if it compares no rows."""
    if name in _DISTANCES:
        return inputs_of(node)[:2]
    if name == LOG_SOFTMAX:
        product = _behind_scale(node)
        return inputs_of(product) if product.name() in MATRIX_PRODUCTS else ()
    if name in _NORMS or name == _ROW_SUM:
        inputs = inputs_of(node)
        if len(shape_of(node)) != 1 or len(inputs) != 1:
            return ()
        inner: Output | None = inputs[0] if name in _NORMS else squared(inputs[0].node)
        if inner is None:
            return ()
        inner = behind(inner, SUMS)
        return inputs_of(inner.node) if inner.node.name() == DIFFERENCE else ()
    return ()


def _is_of_rows(node: Any, factors: Sequence[Any]) -> bool:
    """Whether a softmax is over the products of the rows of two matrices, not of their columns."""
    return shape_of(_behind_scale(node)) == tuple(shape_of(each)[0] for each in factors)


def _behind_scale(node: Any) -> Any:
    """The node that computed the input of a node, before scaling and shifting, which may be learned."""
    shape = shape_of(node)
    for _ in range(_FARTHEST):
        inputs = [each for each in inputs_of(node) if shape_of(each.node) == shape]
        if len(inputs) != 1:
            break
        node = inputs[0].node
        if node.name() not in _SHIFTED | SCALED:
            break
    return node
