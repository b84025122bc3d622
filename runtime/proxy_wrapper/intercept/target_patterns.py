"""Finds loss targets, attention masks and last steps that cannot be intended.

The nodes of the graph have saved them for the backward pass. They are read only for the first passes at a place, and
only on the CPU: reading from an accelerator would wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from proxy_wrapper.intercept.saved_tensors import saved_number, saved_tensor
from proxy_wrapper.values.statistics import unobserved
from proxy_wrapper.values.token_rows import NEXT, only_padding_attended, padding_in, shift_of
from proxy_wrapper.values.torch_functions import (
    aminmax,
    bitwise_xor,
    convert,
    has_any,
    is_equal,
    is_greater,
    item,
    narrow,
    numel,
    reshape,
    select,
    tolist,
    total,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from proxy_wrapper.values.token_rows import Rows

ATTENDED: Final = "padding-attended"
SEEN: Final = "later-tokens-seen"
LAST_STEP: Final = "last-step-padding"
_EMBEDDING: Final = "EmbeddingBackward0"
_CLASS_LOSSES: Final = frozenset({"NllLossBackward0", "NllLoss2DBackward0"})
_BINARY_LOSSES: Final = frozenset({"BinaryCrossEntropyWithLogitsBackward0", "BinaryCrossEntropyBackward0"})
_SOFT_MARGIN: Final = "SoftMarginLossBackward0"
_SUM: Final = "AddBackward0"
_WHERE: Final = "WhereBackward0"
_CLAMP: Final = "ClampMinBackward0"
_SOFTMAXES: Final = frozenset({"SoftmaxBackward0", "SafeSoftmaxBackward0"})
_FUSED: Final = "ScaledDotProductFlashAttentionForCpuBackward0"

_NEGATED: Final = "NegBackward0"
_SELECTED: Final = "SelectBackward0"
_SUMS: Final = frozenset({"SumBackward0", "SumBackward1"})
_LAYERS: Final = {"AddmmBackward0": 2, "MmBackward0": 1, "ConvolutionBackward0": 1}
"""The nodes of layers: the index of their weight."""
_LEAF: Final = "torch::autograd::AccumulateGrad"
_FUSED_RNN: Final = "MkldnnRnnLayerBackward0"

_MOST_TOKENS: Final = 1 << 14
_MOST_QUERIES: Final = 128
_MOST_ATTENTIONS: Final = 4
_LAST: Final = (1 << 64) - 1
"""The index -1, as a node saves it."""
_SAME_SCORES: Final = frozenset(
    {"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "SqueezeBackward0", "SqueezeBackward1"}
    | {"ToCopyBackward0", "DivBackward0", "MulBackward0"}
)
"""The nodes that pass scores on unchanged or scaled."""
_MOST_TEXTS: Final = 2
"""The most different texts that a model may read: the text that it writes, and the text that it translates."""
_LEFT_OUT: Final = -1e4
"""A mask adds less than this to the scores of masked tokens."""
_MEAN: Final = 1
_SUM_OF_ALL: Final = 2
_FARTHEST: Final = 0.5
"""How far binary targets may lie outside 0 to 1: deliberate label smoothing goes up to 1.2."""


class TargetPattern(NamedTuple):
    """A finding, with fields of `GraphPattern`."""

    what: str
    dim: int
    shape: tuple[int, ...]
    values: tuple[float, ...]


class _Tokens(NamedTuple):
    """The input of an embedding: the indices, its number of rows, and the padding index, or -1."""

    indices: torch.Tensor
    vocabulary: int
    padding: int


def find_target_patterns(nodes: Iterable[Any]) -> Iterator[TargetPattern]:
    """The saved tensors of a graph that cannot be intended. Call it where no mode is active."""
    nodes = list(nodes)
    names = [node.name() for node in nodes]
    with unobserved() as readable:
        if not readable:
            return
        tokens = [each for node, name in zip(nodes, names, strict=True) if name == _EMBEDDING and (each := _read(node))]
        attentions = [node for node, name in zip(nodes, names, strict=True) if name in _SOFTMAXES or name == _FUSED]
        for node, name in zip(nodes, names, strict=True):
            if name in _CLASS_LOSSES and tokens:
                yield from _token_faults(node, tokens, attentions)
            elif name in _BINARY_LOSSES:
                yield from _binary_faults(node)
            elif name == _SOFT_MARGIN:
                yield from _sign_faults(saved_tensor(node, "target"))
            elif name == _SUM:
                yield from _pair_faults(node)
            elif name == _NEGATED:
                yield from _of_multi_hot(node)
            elif name == _SELECTED and tokens:
                yield from _of_last_step(node, tokens)
        if tokens:
            yield from _attention_faults(attentions[:_MOST_ATTENTIONS], tokens)


def _read(node: Any) -> _Tokens | None:
    """The tokens that an embedding read; None if they are unknown, or not those of several sequences."""
    indices, rows = saved_tensor(node, "indices"), saved_number(node, "weight_sym_argsize_0")
    if indices is None or rows is None or len(indices.shape) != 2 or min(indices.shape) < 2:
        return None
    padding = saved_number(node, "padding_idx")
    return _Tokens(indices, rows, -1 if padding is None else padding)


def _token_faults(node: Any, tokens: Sequence[_Tokens], attentions: Sequence[Any]) -> Iterator[TargetPattern]:
    """Faults in targets that are tokens of the vocabulary that the model reads."""
    targets, ignored = saved_tensor(node, "target"), saved_number(node, "ignore_index")
    before = node.next_functions[0][0] if node.next_functions else None
    metadata = getattr(before, "_input_metadata", None)
    shape = tuple(metadata[0].shape) if metadata else ()
    if targets is None or ignored is None or len(shape) < 2:
        return
    known = _different([each for each in tokens if each.vocabulary == shape[1]])
    if not known or numel(targets) < 2:
        return
    shifts = [_first_shift(each.indices, targets, ignored) for each in known]
    found = [place for place, shift in enumerate(shifts) if shift is not None]
    if len(known) > 1 and len(found) != 1:
        return
    text = known[found[0] if found else 0]
    size = tuple(text.indices.shape)
    if found and (shift := shifts[found[0]]) is not None:
        order = [_sees_later(each, size[1]) for each in attentions[:_MOST_ATTENTIONS]]
        if shift != NEXT:
            yield TargetPattern("token-targets", shift, size, (float(False in order), float(len(known) - 1)))
        elif True in order and False not in order and _are_of_one_text(tokens):
            yield TargetPattern(SEEN, shift, size, ())
    is_reduced = saved_number(node, "reduction") in (_MEAN, _SUM_OF_ALL)
    if text.padding < 0 or text.padding == ignored or not is_reduced or saved_tensor(node, "weight") is not None:
        return
    for _, wanted in _aligned(text.indices, targets):
        padding = padding_in(wanted, text.padding)
        if padding is not None:
            yield TargetPattern("padding-targets", 0, size, (float(padding.padded), float(padding.whole)))
            break


def _first_shift(indices: torch.Tensor, targets: torch.Tensor, ignored: int) -> int | None:
    """How many positions targets are ahead of tokens; None if they are other tokens, or too few to decide."""
    shifts = (shift_of(given, wanted, ignored) for given, wanted in _aligned(indices, targets))
    return next((shift for shift in shifts if shift is not None), None)


def _different(tokens: Sequence[_Tokens]) -> list[_Tokens]:
    """Tokens without duplicates; [] if there are too many to compare, or too many different texts."""
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], _Tokens] = {}
    for each in tokens:
        if numel(each.indices) > _MOST_TOKENS and len(tokens) > 1:
            return []
        values = tuple(tolist(reshape(each.indices, (-1,)))) if len(tokens) > 1 else ()
        found.setdefault((tuple(each.indices.shape), values), each)
    return list(found.values()) if len(found) <= _MOST_TEXTS else []


def _aligned(indices: torch.Tensor, targets: torch.Tensor) -> Iterator[tuple[Rows, Rows]]:
    """Tokens and targets of the first few sequences, one row each: for the batch dimension first, then second."""
    first, second = indices.shape
    count = numel(targets)
    if count % first == 0 and count // first > 1:
        few = max(1, min(first, _MOST_TOKENS // max(second, count // first)))
        yield tolist(narrow(indices, 0, 0, few)), tolist(narrow(reshape(targets, (first, -1)), 0, 0, few))
    if count % second == 0 and count // second > 1 and max(numel(indices), count) <= _MOST_TOKENS:
        given, wanted = tolist(indices), tolist(reshape(targets, (-1, second)))
        yield [list(row) for row in zip(*given, strict=True)], [list(row) for row in zip(*wanted, strict=True)]


def _are_of_one_text(tokens: Sequence[_Tokens]) -> bool:
    """Whether all embeddings read the same tokens; an encoder may see the whole of another text."""
    first = tolist(tokens[0].indices)
    return all(tolist(each.indices) == first for each in tokens[1:])


def _sees_later(node: Any, length: int) -> bool | None:
    """Whether self-attention over `length` tokens lets some see later ones; None for other attention."""
    if node.name() == _FUSED:
        query, key, added = (saved_tensor(node, name) for name in ("query", "key", "attn_mask"))
        if query is None or key is None or query.shape[-2] != length or key.shape[-2] != length:
            return None
        if saved_number(node, "is_causal"):
            return False
        if added is None or added.shape[-2] != length:  # A mask shared by all queries has one row.
            return True
        weights: torch.Tensor | None = added if added.dtype == torch.bool else is_greater(added, _LEFT_OUT)
    else:
        weights = saved_tensor(node, "result")
    if weights is None or len(weights.shape) < 3 or tuple(weights.shape[-2:]) != (length, length):
        return None
    while len(weights.shape) > 2:
        weights = select(weights, 0, 0)
    rows = tolist(narrow(weights, 0, 0, min(length, _MOST_QUERIES)))
    return any(any(row[place + 1 :]) for place, row in enumerate(rows))


def _attention_faults(attentions: Sequence[Any], tokens: Sequence[_Tokens]) -> Iterator[TargetPattern]:
    """Attentions that mask all tokens but padding."""
    for node in attentions:
        for each in tokens:
            attended = _attended(node, tuple(each.indices.shape))
            if attended is None or numel(each.indices) > _MOST_TOKENS:
                continue
            padding = only_padding_attended(tolist(each.indices), attended)
            if padding is not None:
                yield TargetPattern(ATTENDED, 0, tuple(each.indices.shape), (float(padding),))
                return


def _attended(node: Any, shape: tuple[int, ...]) -> list[list[bool]] | None:
    """Which tokens of each sequence any query attends to; None if the attention is over something else."""
    if node.name() == _FUSED:
        weights = saved_tensor(node, "attn_mask")
        seen = weights if weights is None or weights.dtype == torch.bool else is_greater(weights, _LEFT_OUT)
    else:
        weights = saved_tensor(node, "result")
        seen = None if weights is None else convert(weights, torch.bool)
    if seen is None or len(seen.shape) < 3 or seen.shape[-1] != shape[1] or seen.shape[0] % shape[0]:
        return None
    flags: list[list[bool]] = tolist(has_any(reshape(seen, (shape[0], -1, shape[1])), 1))
    return flags


def _binary_faults(node: Any) -> Iterator[TargetPattern]:
    """Targets of a binary cross entropy that are not probabilities."""
    targets = saved_tensor(node, "target")
    if targets is None or not numel(targets) or not targets.is_floating_point():
        return
    lowest, highest = map(float, map(item, aminmax(targets)))
    if lowest < -_FARTHEST or highest > 1 + _FARTHEST:
        yield TargetPattern("binary-targets", 0, tuple(targets.shape), (lowest, highest))


def _sign_faults(targets: torch.Tensor | None) -> Iterator[TargetPattern]:
    """Zeros among targets of which only the sign should matter."""
    if targets is not None and numel(targets):
        zeros = numel(targets) - int(item(total(convert(targets, torch.bool))))
        if zeros:
            yield TargetPattern("sign-targets", 0, tuple(targets.shape), (float(zeros), float(numel(targets))))


def _pair_faults(node: Any) -> Iterator[TargetPattern]:
    """Targets of `cosine_embedding_loss` and `hinge_embedding_loss` that are neither 1 nor -1.

    Both losses add a term for matching pairs to a term for the others. A target of 1 or -1 selects exactly one of them;
    any other target selects neither or both.
    """
    branches = [each for each, _ in node.next_functions if each is not None and each.name() == _WHERE]
    if len(branches) != 2:
        return
    below = [branch.next_functions[0][0] or _other_input(branch) for branch in branches]
    if not _is_pair_loss(*below):
        return
    conditions = [saved_tensor(branch, "condition") for branch in branches]
    first, second = conditions
    if first is None or second is None or first.shape != second.shape:
        return
    wrong = numel(first) - int(item(total(bitwise_xor(first, second))))
    if wrong:
        yield TargetPattern("sign-targets", 0, tuple(first.shape), (float(wrong), float(numel(first))))


def _of_multi_hot(node: Any) -> Iterator[TargetPattern]:
    """Targets of `cross_entropy` that are 0 and 1, with several ones in some rows and none in others.

    The scores must come from a layer: similarities of vectors may rightly have several matches in a row.
    """
    summed = _only_input(node)
    product = _only_input(summed) if summed is not None and summed.name() in _SUMS else None
    if product is None or product.name() != "MulBackward0":
        return
    scores = product.next_functions[0][0]
    if scores is None or product.next_functions[1][0] is not None or scores.name() != "LogSoftmaxBackward0":
        return
    layer = _only_input(scores)
    while layer is not None and layer.name() in _SAME_SCORES:
        layer = _only_input(layer)
    targets = saved_tensor(product, "other")
    if layer is None or not _has_weight(layer) or targets is None or len(targets.shape) < 2:
        return
    if not targets.is_floating_point() or not is_equal(targets, convert(convert(targets, torch.bool), targets.dtype)):
        return
    ones = convert(total(targets, 1), torch.int64)
    several, none = int(item(total(is_greater(ones, 1)))), numel(ones) - int(item(total(is_greater(ones, 0))))
    if several and none:
        values = (float(several), float(none), float(numel(ones)))
        yield TargetPattern("multi-hot-targets", 1, tuple(targets.shape), values)


def _has_weight(node: Any) -> bool:
    """Whether a node belongs to a layer whose weight is a leaf of the graph."""
    place = _LAYERS.get(node.name())
    weight = None if place is None or place >= len(node.next_functions) else node.next_functions[place][0]
    while weight is not None and weight.name() in ("TBackward0", "ToCopyBackward0"):
        weight = _only_input(weight)
    return weight is not None and weight.name() == _LEAF


def _of_last_step(node: Any, tokens: Sequence[_Tokens]) -> Iterator[TargetPattern]:
    """The last step of a recurrent layer's output, where it is padding for at least half of the sequences."""
    dim, index = saved_number(node, "dim"), saved_number(node, "index")
    sizes = tuple(getattr(node, "_saved_self_sym_sizes", ()))
    if dim not in (0, 1) or index is None or len(sizes) != len(("batch", "steps", "features")):
        return
    length = sizes[dim]
    if index not in (length - 1, _LAST) or not _is_recurrent(_only_input(node), length):
        return
    if len(tokens) != 1 or sizes[0] == sizes[1] or tokens[0].padding < 0:
        return
    indices, padding = tokens[0].indices, tokens[0].padding
    if tuple(indices.shape) != sizes[:2]:
        dim = 1 - dim
    if indices.shape[dim] != length or sorted(indices.shape) != sorted(sizes[:2]):
        return
    first, last = (tolist(select(indices, dim, place)) for place in (0, length - 1))
    padded = sum(each == padding for each in last)
    if padding not in first and 2 <= padded < len(last) and padded * 2 >= len(last):
        yield TargetPattern(LAST_STEP, dim, sizes, (float(padded), float(len(last))))


def _is_recurrent(node: Any, length: int) -> bool:
    """Whether a node, or each node that it joins, computed the outputs of a recurrent layer for `length` steps."""
    while node is not None and node.name() in ("TransposeBackward0", "TransposeBackward1"):
        node = _only_input(node)
    if node is None:
        return False
    inputs = [each for each, _ in node.next_functions]
    if node.name() == "CatBackward0":  # Both directions.
        return len(inputs) == len(("forward", "backward")) and all(_is_recurrent(each, length) for each in inputs)
    if node.name() == "StackBackward0":
        return len(inputs) == length and all(each is not None and _is_cell(each) for each in inputs)
    return bool(node.name() == _FUSED_RNN)


def _is_cell(node: Any) -> bool:
    """Whether a node computed one step of a GRU or of a simple recurrent layer."""
    given = [each.name() for each, _ in node.next_functions if each is not None]
    if node.name() == _SUM:
        return given == ["MulBackward0", "TanhBackward0"]
    return node.name() in ("TanhBackward0", "ReluBackward0") and given == [_SUM]


def _only_input(node: Any) -> Any:
    """The node that computed the only input with a gradient; None if there is not exactly one such input."""
    given = [each for each, _ in node.next_functions if each is not None]
    return given[0] if len(given) == 1 else None


def _other_input(branch: Any) -> Any:
    """The first input that has a gradient."""
    return next((each for each, _ in branch.next_functions if each is not None), None)


def _is_pair_loss(first: Any, second: Any) -> bool:
    """Whether one branch is clamped, and both use one similarity or distance, computed as torch does."""
    for clamped, other in ((first, second), (second, first)):
        if clamped is None or other is None or clamped.name() != _CLAMP:
            continue
        reduced = _other_input(clamped)
        source = None if reduced is None else _other_input(reduced)
        if source is None:
            continue
        if source is other:  # `hinge_embedding_loss` uses the distance unchanged.
            return True
        is_cosine = other.name() == "SubBackward0" and _other_input(other) is source and source.name() == "DivBackward0"
        divisor = source.next_functions[1][0] if is_cosine and len(source.next_functions) > 1 else None
        if divisor is not None and divisor.name() == "SqrtBackward0" and _other_input(divisor).name() == "MulBackward0":
            return True
    return False
