"""Finds formulas in the graph of a loss whose parts contradict each other.

A formula is recognised by its structure: which node uses the result of which other node. The only numbers that are read
are scalar factors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.intercept.saved_tensors import saved_tensor
from proxy_wrapper.intercept.target_patterns import TargetPattern
from proxy_wrapper.values.loss_graph import shape_of
from proxy_wrapper.values.statistics import unobserved
from proxy_wrapper.values.torch_functions import item, numel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import torch

NORM: Final = "norm-of-batch"
SCALE: Final = "scale-is-variance"
ERROR: Final = "error-not-detached"

_SQUARE: Final = 2
_HALF: Final = 0.5
_MATRIX: Final = 2
_MOST_TERMS: Final = 16
_FARTHEST: Final = 12
"""The most nodes that are followed along one path of a formula."""

_SAME_ROWS: Final = frozenset(
    {"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "AliasBackward0", "CloneBackward0"}
    | {"SqueezeBackward0", "SqueezeBackward1", "UnsqueezeBackward0", "ExpandBackward0", "TBackward0"}
    | {"TransposeBackward0", "PermuteBackward0", "SliceBackward0", "IndexBackward0", "IndexSelectBackward0"}
    | {"SplitBackward0", "SelectBackward0", "ToCopyBackward0"}
)
_SUMS: Final = frozenset({"AddBackward0", "AddBackward1"})
_DIFFERENCE: Final = "SubBackward0"
_PRODUCT: Final = "MulBackward0"
_QUOTIENT: Final = "DivBackward0"
_POWER: Final = "PowBackward0"
_EXPONENTIAL: Final = "ExpBackward0"
_SHIFTED: Final = frozenset({*_SUMS, _DIFFERENCE, "SubBackward1", "MaskedFillBackward0"})
_SCALED: Final = frozenset({_PRODUCT, _QUOTIENT})
_NORMS: Final = frozenset({"LinalgVectorNormBackward0", "NormBackward0", "NormBackward1"})
_AT_LEAST: Final = frozenset({"ClampBackward0", "ClampBackward1", "ClampMinBackward0", "AddBackward0", "AddBackward1"})
_DISTANCES: Final = frozenset({"CdistBackward0", "EuclideanDistBackward0"})
_PRODUCTS: Final = frozenset({"MmBackward0", "BmmBackward0"})
_ERRORS: Final = frozenset({"MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0"})
_TOTALS: Final = frozenset({"SumBackward0", "SumBackward1", "MeanBackward0", "MeanBackward1", "StackBackward0"})
_FOLLOWED: Final = _SAME_ROWS | _TOTALS | _SUMS | {_DIFFERENCE, _EXPONENTIAL, "NegBackward0", "GatherBackward0"}
_CHOICES: Final = frozenset({"GatherBackward0", "IndexBackward0", "SelectBackward0"})
_LOG_PROBABILITIES: Final = frozenset({"LogsumexpBackward0", "LogSoftmaxBackward0"})


class _Output(NamedTuple):
    """One of the outputs of a node."""

    node: Any
    place: int


def find_formulas(nodes: Iterable[Any]) -> Iterator[TargetPattern]:
    """The formulas in a graph that contradict themselves. Call it where no mode is active."""
    nodes = list(nodes)
    names = [node.name() for node in nodes]
    with unobserved() as readable:
        if readable:
            yield from _of_norms(nodes, names)
            yield from _of_scales(nodes, names)
            yield from _of_errors(nodes, names)


def _inputs(node: Any) -> Sequence[_Output]:
    """The inputs of a node that have a gradient."""
    return [_Output(value, place) for value, place in node.next_functions if value is not None]


def _input(node: Any, index: int) -> _Output | None:
    """The input of a node at an index; None if it has no gradient."""
    if index >= len(node.next_functions) or node.next_functions[index][0] is None:
        return None
    return _Output(*node.next_functions[index])


def _behind(value: _Output, names: frozenset[str]) -> _Output:
    """The value before a chain of nodes with some names that have one input each."""
    for _ in range(_FARTHEST):
        inputs = _inputs(value.node)
        if value.node.name() not in names or len(inputs) != 1:
            break
        (value,) = inputs
    return value


# Rows that are divided by the norm of the whole matrix.


def _of_norms(nodes: Sequence[Any], names: Sequence[str]) -> Iterator[TargetPattern]:
    """Distances and similarities of rows that were divided by the norm of the whole matrix."""
    divided = {
        node for node, name in zip(nodes, names, strict=True) if name == _QUOTIENT and _is_divided_by_whole(node)
    }
    if not divided:
        return
    for node, name in zip(nodes, names, strict=True):
        compared = _compared(node, name)
        found = [each.node for each in (_behind(each, _SAME_ROWS) for each in compared) if each.node in divided]
        if found and len(found) == len(compared):
            yield TargetPattern(NORM, 0, shape_of(found[0]), ())
            return


def _is_divided_by_whole(node: Any) -> bool:
    """Whether a node divides a matrix by its own norm."""
    shape, above, below = shape_of(node), _input(node, 0), _input(node, 1)
    if above is None or below is None or len(shape) != _MATRIX or min(shape) < _MATRIX:
        return False
    below = _behind(below, _AT_LEAST)
    if any(size != 1 for size in shape_of(below.node)):
        return False
    name = below.node.name()
    if name == "SqrtBackward0":
        below = _behind(below, frozenset({"SqrtBackward0", "SumBackward0", "AddBackward0"}))
        if _squared(below.node) is None:
            return False
        return _squared(below.node) == above
    return name in _NORMS and _input(below.node, 0) == above


def _compared(node: Any, name: str) -> Sequence[_Output]:
    """The two matrices whose rows a node compares; () if it compares no rows."""
    if name in _DISTANCES:
        return _inputs(node)[:2]
    if name == "LogSoftmaxBackward0":
        product = _behind_scale(node)
        return _inputs(product) if product.name() in _PRODUCTS else ()
    if name in _NORMS or name == "SumBackward1":
        inputs = _inputs(node)
        if len(shape_of(node)) != 1 or len(inputs) != 1:
            return ()
        inner: _Output | None = inputs[0] if name in _NORMS else _squared(inputs[0].node)
        if inner is None:
            return ()
        inner = _behind(inner, _SUMS)
        return _inputs(inner.node) if inner.node.name() == _DIFFERENCE else ()
    return ()


def _behind_scale(node: Any) -> Any:
    """The node that computed the input of a node, before scaling and shifting, which may be learned."""
    shape = shape_of(node)
    for _ in range(_FARTHEST):
        inputs = [each for each in _inputs(node) if shape_of(each.node) == shape]
        if len(inputs) != 1:
            break
        node = inputs[0].node
        if node.name() not in _SHIFTED | _SCALED:
            break
    return node


def _squared(node: Any) -> _Output | None:
    """The value that a node squares; None if it squares nothing."""
    name, inputs = node.name(), _inputs(node)
    if name == _POWER and len(inputs) == 1 and getattr(node, "_saved_exponent", None) == _SQUARE:
        return inputs[0]
    return inputs[0] if name == _PRODUCT and len(inputs) == _SQUARE and inputs[0] == inputs[1] else None


# The scale of noise, and the variance in a divergence.


def _of_scales(nodes: Sequence[Any], names: Sequence[str]) -> Iterator[TargetPattern]:
    """Noise that is scaled by the variance in the divergence from a standard normal distribution."""
    scales = [
        found
        for node, name in zip(nodes, names, strict=True)
        if name == "AddBackward0" and (found := _noisy(node)) is not None
    ]
    if not scales:
        return
    for node, name in zip(nodes, names, strict=True):
        if name != _DIFFERENCE and name not in _SUMS:
            continue
        terms = _terms(_Output(node, 0))
        for mean, exponential in scales:
            logarithm = _logarithm(exponential.node)
            squares = [factor for value, factor in terms.items() if _squared(value.node) == mean]
            of_scale = _of_exponential(terms, exponential)
            factor = terms.get(logarithm, 0.0)
            if factor and of_scale == -factor and squares == [-factor]:
                yield TargetPattern(SCALE, 0, shape_of(exponential.node), ())
                return


def _noisy(node: Any) -> tuple[_Output, _Output] | None:
    """The mean and the scale of a sum of a mean and noise, where the scale is an exponential; None for other nodes."""
    inputs = _inputs(node)
    if len(inputs) != _SQUARE:
        return None
    for mean, noise in (inputs, inputs[::-1]):
        factors = _inputs(noise.node)
        if noise.node.name() != _PRODUCT or len(factors) != 1 or len(noise.node.next_functions) != _SQUARE:
            continue
        if factors[0].node.name() == _EXPONENTIAL and _factor(noise.node) is None:
            return mean, factors[0]
    return None


def _logarithm(exponential: Any) -> _Output:
    """The argument of an exponential, without the factor 0.5 that turns a variance into a standard deviation."""
    value = _inputs(exponential)[0]
    return _inputs(value.node)[0] if value.node.name() in _SCALED and _factor(value.node) == _HALF else value


def _of_exponential(terms: dict[_Output, float], exponential: _Output) -> float:
    """The factor of the only term that is the exponential of the same argument; 0 if there is not exactly one."""
    argument = _argument(exponential.node)
    found = [
        factor
        for value, factor in terms.items()
        if value.node.name() == _EXPONENTIAL and _argument(value.node) == argument
    ]
    return found[0] if len(found) == 1 else 0.0


def _argument(exponential: Any) -> tuple[_Output, float]:
    """The argument of an exponential without its factor, and the factor."""
    value = _inputs(exponential)[0]
    factor = _factor(value.node) if value.node.name() in _SCALED else None
    return (value, 1.0) if factor is None else (_inputs(value.node)[0], factor)


def _terms(root: _Output) -> dict[_Output, float]:
    """The terms of a sum, each with its factor; {} if a factor is unknown, or if there are too many terms."""
    terms: dict[_Output, float] = {}
    pending = [(root, 1.0)]
    for value, factor in pending:
        if len(pending) > _MOST_TERMS:
            return {}
        node, name = value.node, value.node.name()
        first, second = _input(node, 0), _input(node, 1)
        own = _factor(node) if name in _SCALED else None
        if name == _DIFFERENCE or name in _SUMS:
            if getattr(node, "_saved_alpha", 1) != 1:
                return {}
            pending += [(first, factor)] if first is not None else []
            pending += [(second, -factor if name == _DIFFERENCE else factor)] if second is not None else []
        elif name in ("RsubBackward1", "NegBackward0") and first is not None:
            if getattr(node, "_saved_alpha", 1) != 1:
                return {}
            pending.append((first, -factor))
        elif own is not None and first is not None:
            pending.append((first, factor * own))
        else:
            terms[value] = terms.get(value, 0.0) + factor
    return terms


def _factor(node: Any) -> float | None:
    """The scalar that a product or a quotient multiplies its input by; None if it is not a single number."""
    if len(_inputs(node)) != 1 or _input(node, 0) is None:
        return None
    other: torch.Tensor | None = saved_tensor(node, "other")
    if other is None or numel(other) != 1 or other.dim():
        return None
    number = float(item(other))
    if node.name() == _QUOTIENT:
        return 1 / number if number else None
    return number


# Errors of a prediction that weight log-probabilities.


def _of_errors(nodes: Sequence[Any], names: Sequence[str]) -> Iterator[TargetPattern]:
    """Errors of a critic that are in its own loss, and that also weight log-probabilities without being detached."""
    for node, name in zip(nodes, names, strict=True):
        inputs = _inputs(node)
        if name != _PRODUCT or len(inputs) != _SQUARE or inputs[0] == inputs[1]:
            continue
        for policy, weight in (inputs, inputs[::-1]):
            error = _error(weight)
            if error is None or not _is_log_probability(policy):
                continue
            predicted = _behind(_inputs(error.node)[-1], _SAME_ROWS)
            if any(_is_loss_of(each, error, predicted) for each in nodes):
                yield TargetPattern(ERROR, 0, shape_of(error.node), ())
                return


def _error(weight: _Output) -> _Output | None:
    """The difference that a weight was computed from, standardised or not; None if there is none."""
    for _ in range(_FARTHEST):
        weight = _behind(weight, _SAME_ROWS)
        name, first, second = weight.node.name(), _input(weight.node, 0), _input(weight.node, 1)
        is_standardised = name == _QUOTIENT and second is not None
        if first is not None and (name == "NegBackward0" or is_standardised):
            weight = first
        elif name == _DIFFERENCE:
            is_centred = first is not None and second is not None and _is_mean_of(second, first)
            if not is_centred:
                return weight
            weight = first if first is not None else weight
        else:
            return None
    return None


def _is_mean_of(mean: _Output, of: _Output) -> bool:
    return mean.node.name() in ("MeanBackward0", "MeanBackward1") and _input(mean.node, 0) == of


def _is_log_probability(value: _Output) -> bool:
    """Whether a value is the log-probability of a chosen action."""
    pending = [(value, False)]
    for each, is_chosen in pending:
        if len(pending) > _FARTHEST:
            break
        name, inputs = each.node.name(), _inputs(each.node)
        first = inputs[0] if inputs else None
        if is_chosen and (
            name in _LOG_PROBABILITIES
            or (name == _DIFFERENCE and len(inputs) == _SQUARE and inputs[1].node.name() in _LOG_PROBABILITIES)
            or (name == "LogBackward0" and first is not None and _is_of_probabilities(first))
        ):
            return True
        if name == _QUOTIENT and first is not None and first.node.name() == "NegBackward0":
            squared = _squared(_inputs(first.node)[0].node)
            if squared is not None and squared.node.name() == _DIFFERENCE and _input(squared.node, 0) is None:
                return True  # The density of a normal distribution, at a value that has no gradient.
        is_scaled = name in _SCALED and len(inputs) == 1
        if first is not None and (is_scaled or name in _FOLLOWED):
            pending.append((first, is_chosen or name in _CHOICES))
    return False


def _is_of_probabilities(value: _Output) -> bool:
    found = _behind(value, frozenset({"ClampBackward0", "ClampBackward1"})).node
    inputs = _inputs(found)
    return found.name() == "SoftmaxBackward0" or (
        found.name() == _QUOTIENT and bool(inputs) and inputs[0].node.name() == "SoftmaxBackward0"
    )


def _is_loss_of(node: Any, error: _Output, predicted: _Output) -> bool:
    """Whether a node computes a loss from an error, or from the prediction in it."""
    if node.name() in _ERRORS:
        return any(_behind(each, _SAME_ROWS) in (error, predicted) for each in _inputs(node))
    squared = _squared(node)
    if squared is None:
        return False
    squared = _behind(squared, _SAME_ROWS)
    if squared == error:
        return True
    inputs = _inputs(squared.node)
    is_error = squared.node.name() == _DIFFERENCE and len(inputs) == 1
    return is_error and _behind(inputs[0], _SAME_ROWS) == predicted
