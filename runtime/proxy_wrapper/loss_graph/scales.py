"""Finds noise whose scale is the variance in the divergence from a standard normal distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.loss_graph.arithmetic import factor_of, squared, terms_of
from proxy_wrapper.loss_graph.nodes import DIFFERENCE, PRODUCT, SCALED, SUMS, Output, inputs_of, shape_of
from proxy_wrapper.loss_graph.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

SCALE: Final = "scale-is-variance"

EXPONENTIAL: Final = "ExpBackward0"
_HALF: Final = 0.5
_FACTORS: Final = 2


def scales_that_are_variances(graph: LossGraph) -> Iterator[Pattern]:
    """The first divergence of which the variance also scales the noise of a draw."""
    scales = [found for node in graph.named(("AddBackward0",)) if (found := noisy(node)) is not None]
    for node in graph.named({*SUMS, DIFFERENCE}) if scales else ():
        terms = terms_of(Output(node, 0))
        for mean, exponential in scales:
            logarithm = _logarithm(exponential.node)
            squares = [factor for value, factor in terms.items() if squared(value.node) == mean]
            of_scale = _of_exponential(terms, exponential)
            factor = terms.get(logarithm, 0.0)
            if factor and of_scale == -factor and squares == [-factor]:
                yield Pattern(SCALE, shape_of(exponential.node))
                return


def noisy(node: Any) -> tuple[Output, Output] | None:
    """The mean and the scale of a sum of a mean and noise, where the scale is an exponential; None for other nodes."""
    inputs = inputs_of(node)
    if len(inputs) != _FACTORS:
        return None
    for mean, noise in (inputs, inputs[::-1]):
        factors = inputs_of(noise.node)
        if noise.node.name() != PRODUCT or len(factors) != 1 or len(noise.node.next_functions) != _FACTORS:
            continue
        if factors[0].node.name() == EXPONENTIAL and factor_of(noise.node) is None:
            return mean, factors[0]
    return None


def _logarithm(exponential: Any) -> Output:
    """The argument of an exponential, without the factor 0.5 that turns a variance into a standard deviation."""
    value = inputs_of(exponential)[0]
    return inputs_of(value.node)[0] if value.node.name() in SCALED and factor_of(value.node) == _HALF else value


def _of_exponential(terms: dict[Output, float], exponential: Output) -> float:
    """The factor of the only term that is the exponential of the same argument; 0 if there is not exactly one."""
    argument = _argument(exponential.node)
    found = [
        factor
        for value, factor in terms.items()
        if value.node.name() == EXPONENTIAL and _argument(value.node) == argument
    ]
    return found[0] if len(found) == 1 else 0.0


def _argument(exponential: Any) -> tuple[Output, float]:
    """The argument of an exponential without its factor, and the factor."""
    value = inputs_of(exponential)[0]
    factor = factor_of(value.node) if value.node.name() in SCALED else None
    return (value, 1.0) if factor is None else (inputs_of(value.node)[0], factor)
