"""Finds formulas in the graph of a loss of which one part contradicts another.

A formula is known by its structure: which node takes what which other one gave. Numbers are read only of factors that
Python wrote into the formula.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.intercept.saved_tensors import saved_tensor
from proxy_wrapper.intercept.target_patterns import TargetPattern
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
"""How many nodes a formula is followed."""

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


class _Given(NamedTuple):
    """What a node gave in one of its places."""

    node: Any
    place: int


def find_formulas(nodes: Iterable[Any]) -> Iterator[TargetPattern]:
    """The formulas in a graph that contradict themselves; to be called where no mode sees it."""
    nodes = list(nodes)
    names = [node.name() for node in nodes]
    with unobserved() as readable:
        if readable:
            yield from _of_norms(nodes, names)
            yield from _of_scales(nodes, names)
            yield from _of_errors(nodes, names)


def _taken(node: Any) -> Sequence[_Given]:
    """What a node took that has a gradient, without what other nodes gave to what has none."""
    return [_Given(given, place) for given, place in node.next_functions if given is not None]


def _at(node: Any, index: int) -> _Given | None:
    """What a node took in one place; None if that has no gradient."""
    if index >= len(node.next_functions) or node.next_functions[index][0] is None:
        return None
    return _Given(*node.next_functions[index])


def _shape(node: Any) -> tuple[int, ...]:
    metadata = getattr(node, "_input_metadata", None)
    return tuple(size if type(size) is int else 0 for size in metadata[0].shape) if metadata else ()


def _behind(given: _Given, names: frozenset[str]) -> _Given:
    """What was given before nodes with some names, each of which took only one thing."""
    for _ in range(_FARTHEST):
        taken = _taken(given.node)
        if given.node.name() not in names or len(taken) != 1:
            break
        (given,) = taken
    return given


# Rows that are divided by the norm of all.


def _of_norms(nodes: Sequence[Any], names: Sequence[str]) -> Iterator[TargetPattern]:
    """Distances and similarities of rows that were divided by one norm of all of them."""
    divided = {
        node for node, name in zip(nodes, names, strict=True) if name == _QUOTIENT and _is_divided_by_whole(node)
    }
    if not divided:
        return
    for node, name in zip(nodes, names, strict=True):
        compared = _compared(node, name)
        found = [each.node for each in (_behind(each, _SAME_ROWS) for each in compared) if each.node in divided]
        if found and len(found) == len(compared):
            yield TargetPattern(NORM, 0, _shape(found[0]), ())
            return


def _is_divided_by_whole(node: Any) -> bool:
    """Whether the rows of a matrix are divided by the norm of that very matrix."""
    shape, above, below = _shape(node), _at(node, 0), _at(node, 1)
    if above is None or below is None or len(shape) != _MATRIX or min(shape) < _MATRIX:
        return False
    below = _behind(below, _AT_LEAST)
    if any(size != 1 for size in _shape(below.node)):
        return False
    name = below.node.name()
    if name == "SqrtBackward0":
        below = _behind(below, frozenset({"SqrtBackward0", "SumBackward0", "AddBackward0"}))
        if _squared(below.node) is None:
            return False
        return _squared(below.node) == above
    return name in _NORMS and _at(below.node, 0) == above


def _compared(node: Any, name: str) -> Sequence[_Given]:
    """The two matrices whose rows a node compares; () if it compares none."""
    if name in _DISTANCES:
        return _taken(node)[:2]
    if name == "LogSoftmaxBackward0":
        product = _behind_scale(node)
        return _taken(product) if product.name() in _PRODUCTS else ()
    if name in _NORMS or name == "SumBackward1":
        taken = _taken(node)
        if len(_shape(node)) != 1 or len(taken) != 1:
            return ()
        inner: _Given | None = taken[0] if name in _NORMS else _squared(taken[0].node)
        if inner is None:
            return ()
        inner = _behind(inner, _SUMS)
        return _taken(inner.node) if inner.node.name() == _DIFFERENCE else ()
    return ()


def _behind_scale(node: Any) -> Any:
    """What gave what a node took, before it was scaled and shifted, by numbers that may be learnt."""
    shape = _shape(node)
    for _ in range(_FARTHEST):
        taken = [each for each in _taken(node) if _shape(each.node) == shape]
        if len(taken) != 1:
            break
        node = taken[0].node
        if node.name() not in _SHIFTED | _SCALED:
            break
    return node


def _squared(node: Any) -> _Given | None:
    """What a node squares; None if it squares nothing."""
    name, taken = node.name(), _taken(node)
    if name == _POWER and len(taken) == 1 and getattr(node, "_saved_exponent", None) == _SQUARE:
        return taken[0]
    return taken[0] if name == _PRODUCT and len(taken) == _SQUARE and taken[0] == taken[1] else None


# The scale of noise, and the variance in a divergence.


def _of_scales(nodes: Sequence[Any], names: Sequence[str]) -> Iterator[TargetPattern]:
    """Noise that is scaled by what the divergence from a standard normal distribution takes for the variance."""
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
        terms = _terms(_Given(node, 0))
        for mean, exponential in scales:
            logarithm = _logarithm(exponential.node)
            squares = [factor for given, factor in terms.items() if _squared(given.node) == mean]
            of_scale = _of_exponential(terms, exponential)
            factor = terms.get(logarithm, 0.0)
            if factor and of_scale == -factor and squares == [-factor]:
                yield TargetPattern(SCALE, 0, _shape(exponential.node), ())
                return


def _noisy(node: Any) -> tuple[_Given, _Given] | None:
    """The mean and the scale, an exponential, of what a node adds up of a mean and noise; None if it does not."""
    taken = _taken(node)
    if len(taken) != _SQUARE:
        return None
    for mean, noise in (taken, taken[::-1]):
        factors = _taken(noise.node)
        if noise.node.name() != _PRODUCT or len(factors) != 1 or len(noise.node.next_functions) != _SQUARE:
            continue
        if factors[0].node.name() == _EXPONENTIAL and _factor(noise.node) is None:
            return mean, factors[0]
    return None


def _logarithm(exponential: Any) -> _Given:
    """What an exponential is the exponential of, without the half that makes a deviation of a variance."""
    given = _taken(exponential)[0]
    return _taken(given.node)[0] if given.node.name() in _SCALED and _factor(given.node) == _HALF else given


def _of_exponential(terms: dict[_Given, float], exponential: _Given) -> float:
    """The factor of the exponential of the same number among terms; 0 if there is none, or several."""
    argument = _argument(exponential.node)
    found = [
        factor
        for given, factor in terms.items()
        if given.node.name() == _EXPONENTIAL and _argument(given.node) == argument
    ]
    return found[0] if len(found) == 1 else 0.0


def _argument(exponential: Any) -> tuple[_Given, float]:
    """What an exponential is of, and the factor in front of that."""
    given = _taken(exponential)[0]
    factor = _factor(given.node) if given.node.name() in _SCALED else None
    return (given, 1.0) if factor is None else (_taken(given.node)[0], factor)


def _terms(root: _Given) -> dict[_Given, float]:
    """The terms of a sum, each with its factor; {} if a factor is not known, or there are too many."""
    terms: dict[_Given, float] = {}
    pending = [(root, 1.0)]
    for given, factor in pending:
        if len(pending) > _MOST_TERMS:
            return {}
        node, name = given.node, given.node.name()
        first, second = _at(node, 0), _at(node, 1)
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
            terms[given] = terms.get(given, 0.0) + factor
    return terms


def _factor(node: Any) -> float | None:
    """The number that a product or a quotient multiplies something by; None if it is not a single one."""
    if len(_taken(node)) != 1 or _at(node, 0) is None:
        return None
    other: torch.Tensor | None = saved_tensor(node, "other")
    if other is None or numel(other) != 1 or other.dim():
        return None
    number = float(item(other))
    if node.name() == _QUOTIENT:
        return 1 / number if number else None
    return number


# Errors of a prediction that are the weights of something else.


def _of_errors(nodes: Sequence[Any], names: Sequence[str]) -> Iterator[TargetPattern]:
    """Errors of a critic that its own loss squares, and that also are, with their gradient, weights of the policy."""
    for node, name in zip(nodes, names, strict=True):
        taken = _taken(node)
        if name != _PRODUCT or len(taken) != _SQUARE or taken[0] == taken[1]:
            continue
        for policy, weight in (taken, taken[::-1]):
            error = _error(weight)
            if error is None or not _is_log_probability(policy):
                continue
            predicted = _behind(_taken(error.node)[-1], _SAME_ROWS)
            if any(_is_loss_of(each, error, predicted) for each in nodes):
                yield TargetPattern(ERROR, 0, _shape(error.node), ())
                return


def _error(weight: _Given) -> _Given | None:
    """The difference of something that a weight is, standardised or not; None if it is none."""
    for _ in range(_FARTHEST):
        weight = _behind(weight, _SAME_ROWS)
        name, first, second = weight.node.name(), _at(weight.node, 0), _at(weight.node, 1)
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


def _is_mean_of(mean: _Given, of: _Given) -> bool:
    return mean.node.name() in ("MeanBackward0", "MeanBackward1") and _at(mean.node, 0) == of


def _is_log_probability(given: _Given) -> bool:
    """Whether something is the logarithm of the probability of what a policy chose."""
    pending = [(given, False)]
    for each, is_chosen in pending:
        if len(pending) > _FARTHEST:
            break
        name, taken = each.node.name(), _taken(each.node)
        first = taken[0] if taken else None
        if is_chosen and (
            name in _LOG_PROBABILITIES
            or (name == _DIFFERENCE and len(taken) == _SQUARE and taken[1].node.name() in _LOG_PROBABILITIES)
            or (name == "LogBackward0" and first is not None and _is_of_probabilities(first))
        ):
            return True
        if name == _QUOTIENT and first is not None and first.node.name() == "NegBackward0":
            squared = _squared(_taken(first.node)[0].node)
            if squared is not None and squared.node.name() == _DIFFERENCE and _at(squared.node, 0) is None:
                return True  # Of a normal distribution, at a value that has no gradient.
        is_scaled = name in _SCALED and len(taken) == 1
        if first is not None and (is_scaled or name in _FOLLOWED):
            pending.append((first, is_chosen or name in _CHOICES))
    return False


def _is_of_probabilities(given: _Given) -> bool:
    found = _behind(given, frozenset({"ClampBackward0", "ClampBackward1"})).node
    taken = _taken(found)
    return found.name() == "SoftmaxBackward0" or (
        found.name() == _QUOTIENT and bool(taken) and taken[0].node.name() == "SoftmaxBackward0"
    )


def _is_loss_of(node: Any, error: _Given, predicted: _Given) -> bool:
    """Whether a node is a loss of an error, or of the prediction in it."""
    if node.name() in _ERRORS:
        return any(_behind(each, _SAME_ROWS) in (error, predicted) for each in _taken(node))
    squared = _squared(node)
    if squared is None:
        return False
    squared = _behind(squared, _SAME_ROWS)
    if squared == error:
        return True
    taken = _taken(squared.node)
    is_error = squared.node.name() == _DIFFERENCE and len(taken) == 1
    return is_error and _behind(taken[0], _SAME_ROWS) == predicted
