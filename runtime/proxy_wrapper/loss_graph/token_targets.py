"""Finds targets of a class loss that are tokens of the text that the model reads, at the wrong distance or padded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.loss_graph.attentions import attentions_of, sees_later
from proxy_wrapper.loss_graph.nodes import CLASS_LOSSES, COPIED, LOG_SOFTMAX, TRANSPOSED, VIEWS, node_before, shape_of
from proxy_wrapper.loss_graph.pattern import Pattern
from proxy_wrapper.loss_graph.saved_tensors import saved_number, saved_tensor
from proxy_wrapper.loss_graph.token_rows import NEXT, labels_of_padding, padding_in, shift_of
from proxy_wrapper.loss_graph.tokens import MOST_TOKENS, Tokens, tokens_of
from proxy_wrapper.values.torch_functions import narrow, numel, reshape, tolist

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

    from proxy_wrapper.loss_graph.graph import LossGraph
    from proxy_wrapper.loss_graph.token_rows import Rows

SEEN: Final = "later-tokens-seen"

_MOST_TEXTS: Final = 2
"""The most different texts that a model may read: the text that it writes, and the text that it translates."""
_SLICE: Final = "SliceBackward0"
_LEADING: Final = VIEWS | COPIED | TRANSPOSED | {LOG_SOFTMAX, _SLICE}
"""The nodes between the scores of a model and a loss of some of them."""
_SEQUENCES: Final = 3
"""The dimensions of scores: sequences, positions and classes."""
_MEAN: Final = 1
_SUM: Final = 2


def token_targets(graph: LossGraph) -> Iterator[Pattern]:
    """Targets that are the wrong tokens, that the model has seen, or that are padding."""
    losses = graph.named(CLASS_LOSSES)
    tokens = tokens_of(graph) if losses else []
    if tokens:
        attentions = attentions_of(graph)
        for node in losses:
            yield from _faults(node, tokens, attentions)


def _faults(node: Any, tokens: Sequence[Tokens], attentions: Sequence[Any]) -> Iterator[Pattern]:
    """Faults in targets that are tokens of the vocabulary that the model reads."""
    targets, ignored = saved_tensor(node, "target"), saved_number(node, "ignore_index")
    before = node_before(node, 0)
    shape = () if before is None else shape_of(before)
    if targets is None or ignored is None or len(shape) < 2:
        return
    known = _different([each for each in tokens if each.vocabulary == shape[1]])
    is_reduced = saved_number(node, "reduction") in (_MEAN, _SUM) and saved_tensor(node, "weight") is None
    if is_reduced and not known:
        yield from _labeled_padding(targets, ignored, tokens)
    if not known or numel(targets) < 2:
        return
    start = _start_of(before)
    if start is None or any(start >= each.indices.shape[1] for each in known):
        return
    read = [narrow(each.indices, 1, start, each.indices.shape[1] - start) for each in known]
    shifts = [_first_shift(indices, targets, ignored) for indices in read]
    found = [place for place, shift in enumerate(shifts) if shift is not None]
    if len(known) > 1 and len(found) != 1:
        return
    text = known[found[0] if found else 0]
    size = tuple(text.indices.shape)
    if found and (shift := shifts[found[0]]) is not None:
        order = [sees_later(each, size[1]) for each in attentions]
        if shift != NEXT:
            yield Pattern("token-targets", size, shift, (float(False in order), float(len(known) - 1)))
        elif True in order and False not in order and _are_of_one_text(tokens):
            yield Pattern(SEEN, size, shift)
    if text.padding < 0 or text.padding == ignored or not is_reduced:
        return
    for _, wanted in _aligned(text.indices, targets):
        padding = padding_in(wanted, text.padding)
        if padding is not None:
            yield Pattern("padding-targets", size, values=(float(padding.padded), float(padding.whole)))
            break


def _start_of(node: Any) -> int | None:
    """The position whose scores are the first ones in the loss, as in `logits[:, start:]`; None if it is unknown."""
    start = 0
    while node is not None and node.name() in _LEADING:
        if node.name() == _SLICE:
            first = saved_number(node, "start")
            sizes = getattr(node, "_saved_self_sym_sizes", ())
            if first != 0 and (
                first is None or first < 0 or len(sizes) != _SEQUENCES or saved_number(node, "dim") != 1
            ):
                return None
            start += first
        node = node_before(node, 0)
    return start


def _labeled_padding(targets: torch.Tensor, ignored: int, tokens: Sequence[Tokens]) -> Iterator[Pattern]:
    """The labels of padding tokens, in targets with one label for each token that the model reads."""
    texts = [each for each in _different(tokens) if each.padding >= 0 and numel(each.indices) == numel(targets)]
    if len(texts) != 1 or numel(targets) > MOST_TOKENS:
        return
    indices, _, index = texts[0]
    labels = tolist(reshape(targets, tuple(indices.shape)))
    padding = labels_of_padding(tolist(indices), labels, index, ignored)
    if padding is not None:
        values = (float(padding.padded), float(padding.whole))
        yield Pattern("padding-labels", tuple(indices.shape), values=values)


def _first_shift(indices: torch.Tensor, targets: torch.Tensor, ignored: int) -> int | None:
    """How many positions targets are ahead of tokens; None if they are other tokens, or too few to decide."""
    shifts = (shift_of(given, wanted, ignored) for given, wanted in _aligned(indices, targets))
    return next((shift for shift in shifts if shift is not None), None)


def _different(tokens: Sequence[Tokens]) -> list[Tokens]:
    """Tokens without duplicates; [] if there are too many to compare, or too many different texts."""
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], Tokens] = {}
    for each in tokens:
        if numel(each.indices) > MOST_TOKENS and len(tokens) > 1:
            return []
        values = tuple(tolist(reshape(each.indices, (-1,)))) if len(tokens) > 1 else ()
        found.setdefault((tuple(each.indices.shape), values), each)
    return list(found.values()) if len(found) <= _MOST_TEXTS else []


def _aligned(indices: torch.Tensor, targets: torch.Tensor) -> Iterator[tuple[Rows, Rows]]:
    """Tokens and targets of the first few sequences, one row each: for the batch dimension first, then second."""
    first, second = indices.shape
    count = numel(targets)
    if count % first == 0 and count // first > 1:
        few = max(1, min(first, MOST_TOKENS // max(second, count // first)))
        yield tolist(narrow(indices, 0, 0, few)), tolist(narrow(reshape(targets, (first, -1)), 0, 0, few))
    if count % second == 0 and count // second > 1 and max(numel(indices), count) <= MOST_TOKENS:
        given, wanted = tolist(indices), tolist(reshape(targets, (-1, second)))
        yield [list(row) for row in zip(*given, strict=True)], [list(row) for row in zip(*wanted, strict=True)]


def _are_of_one_text(tokens: Sequence[Tokens]) -> bool:
    """Whether all embeddings read the same tokens; an encoder may see the whole of another text."""
    first = tolist(tokens[0].indices)
    return all(tolist(each.indices) == first for each in tokens[1:])
