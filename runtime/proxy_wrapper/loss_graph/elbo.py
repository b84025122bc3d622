"""Finds losses of variational autoencoders that sum the divergence, but average the reconstruction.

The evidence lower bound adds both for each sample, so that an element of one counts as much as one of the other. If the
divergence is summed where the reconstruction is averaged, it counts as many times too much as there are elements.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.loss_graph.arithmetic import factor_of, squared, terms_of
from proxy_wrapper.loss_graph.nodes import (
    BINARY_LOSSES,
    DIFFERENCE,
    ERRORS,
    MEANS,
    SAME_VALUES,
    SCALED,
    SUMS,
    TOTALS,
    Output,
    input_at,
    inputs_of,
    node_before,
    shape_of,
)
from proxy_wrapper.loss_graph.pattern import Pattern
from proxy_wrapper.loss_graph.saved_tensors import saved_number
from proxy_wrapper.loss_graph.scales import EXPONENTIAL, noisy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

WEIGHT: Final = "divergence-outweighs"

_ERRORS: Final = frozenset({*ERRORS, "L1LossBackward0"})
_NEGATED: Final = frozenset({"NegBackward0", "RsubBackward1"})
_SUMMED: Final = SUMS | _NEGATED | {DIFFERENCE}
_MEAN: Final = 1
_LEAST: Final = 20.0
"""The least excess that is reported."""
_MOST_PARTS: Final = 32
_MOST_NODES: Final = 1024


class _Part(NamedTuple):
    """A part of a loss: the factor of each of its elements, its shape, and the node of the value that it is made of."""

    factor: float
    shape: tuple[int, ...]
    node: Any
    is_error: bool = False


def divergences_that_outweigh(graph: LossGraph) -> Iterator[Pattern]:
    """The first loss whose divergence counts more than its reconstruction by just the elements of a mean.

    There must be exactly one divergence and one reconstruction, and nothing else: any other term, and any other factor,
    may be there to balance them.
    """
    for node in graph.named(("AddBackward0",)):
        draw = noisy(node)
        if draw is None or not shape_of(node):
            continue
        found = _parts(graph.root, draw[0])
        if found is None:
            continue
        divergence, reconstruction = found
        samples, elements = divergence.shape[0], math.prod(reconstruction.shape)
        if not samples or elements % samples or not _is_computed_from(reconstruction.node, node):
            continue
        excess = divergence.factor / reconstruction.factor if reconstruction.factor else 0.0
        usual = (1.0, 2.0) if reconstruction.is_error else (1.0,)  # Half a squared error is a likelihood, too.
        counts = {float(samples), float(elements // samples), float(elements)}
        if excess >= _LEAST and any(
            math.isclose(excess, each * count, rel_tol=1e-5) for each in usual for count in counts
        ):
            yield Pattern(WEIGHT, reconstruction.shape, values=(excess,))
        return


def _parts(root: Any, mean: Output) -> tuple[_Part, _Part] | None:
    """The divergence and the reconstruction that a loss adds; None if it is not just these two."""
    divergences: list[_Part] = []
    reconstructions: list[_Part] = []
    pending = [(Output(root, 0), 1.0)]
    for value, factor in pending:
        shape = shape_of(value.node)
        weight = _divergence(value, mean) if shape == shape_of(mean.node) else 0.0
        error = _reconstruction(value.node, factor)
        if weight:
            divergences.append(_Part(factor * weight, shape, value.node))
        elif error is not None:
            reconstructions.append(error)
        else:
            found = _terms(value.node, factor)
            if not found or len(pending) > _MOST_PARTS:
                return None
            pending += found
    if len(divergences) != 1 or len(reconstructions) != 1:
        return None
    return divergences[0], reconstructions[0]


def _terms(node: Any, factor: float) -> list[tuple[Output, float]]:
    """The inputs of a node that adds, scales or reduces, each with the factor of its elements; [] for other nodes."""
    name, shape, inputs = node.name(), shape_of(node), inputs_of(node)
    if name in _SUMMED:
        if getattr(node, "_saved_alpha", 1) != 1 or any(shape_of(each.node) != shape for each in inputs):
            return []
        negated = input_at(node, 1) if name == DIFFERENCE else input_at(node, 0) if name in _NEGATED else None
        return [(each, -factor if each == negated else factor) for each in inputs]
    if len(inputs) != 1:
        return []
    if name in TOTALS or name in MEANS:
        before = getattr(node, "_saved_self_sym_sizes", ())
        if not before or not all(type(size) is int and size for size in before):
            return []
        return [(inputs[0], factor * math.prod(shape) / math.prod(before) if name in MEANS else factor)]
    if name in SCALED:
        own = factor_of(node)
        return [] if own is None else [(inputs[0], factor * own)]
    return [(inputs[0], factor)] if name in SAME_VALUES - {"ExpandBackward0"} else []


def _divergence(value: Output, mean: Output) -> float:
    """By how much a value is the divergence from a standard normal distribution, element by element; 0 if it is not."""
    terms = terms_of(value)
    squares = [factor for each, factor in terms.items() if squared(each.node) == mean]
    for each, factor in terms.items():
        of_square = squared(each.node)
        power = 1.0 if of_square is None else 2.0
        exponential = each.node if of_square is None else of_square.node
        if exponential.name() != EXPONENTIAL or squares != [factor]:
            continue
        logarithm, own = _unscaled(inputs_of(exponential)[0])
        if math.isclose(terms.get(logarithm, 0.0), -own * power * factor):
            return 2 * factor
    return 0.0


def _unscaled(value: Output) -> tuple[Output, float]:
    """A value without its factors, and their product."""
    product = 1.0
    for _ in range(_MOST_PARTS):
        factor = factor_of(value.node) if value.node.name() in SCALED else None
        if factor is None:
            break
        value, product = inputs_of(value.node)[0], product * factor
    return value, product


def _reconstruction(node: Any, factor: float) -> _Part | None:
    """A node as a reconstruction, with the factor of each of its elements; None if it is none."""
    name = node.name()
    if name in BINARY_LOSSES or name in _ERRORS:
        before = node_before(node, 0)
        shape, reduction = () if before is None else shape_of(before), saved_number(node, "reduction")
        if not shape or reduction is None:
            return None
        count: int = math.prod(shape)
        each = factor / count if reduction == _MEAN and count else factor
        return _Part(each, shape, before, is_error=name in _ERRORS)
    found = squared(node)
    if found is not None and found.node.name() == DIFFERENCE and len(inputs_of(found.node)) == 1:
        return _Part(factor, shape_of(node), found.node, is_error=True)
    return None


def _is_computed_from(node: Any, draw: Any) -> bool:
    """Whether the graph of a node contains another."""
    pending = [node]
    seen = {node}
    for each in pending:
        if each is draw:
            return True
        for following, _ in each.next_functions:
            if following is not None and following not in seen and len(seen) < _MOST_NODES:
                seen.add(following)
                pending.append(following)
    return False
