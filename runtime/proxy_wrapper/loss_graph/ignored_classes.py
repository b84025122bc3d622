"""Finds class losses that ignore one of the classes of the samples, as by `ignore_index=0`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.loss_graph.nodes import CLASS_LOSS, CLASS_LOSSES, LAYERS, LOG_SOFTMAX, node_before, shape_of
from proxy_wrapper.loss_graph.pattern import Pattern
from proxy_wrapper.loss_graph.saved_tensors import saved_number, saved_tensor
from proxy_wrapper.values.torch_functions import tolist

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

IGNORED: Final = "class-ignored"

_MOST_TARGETS: Final = 1 << 14
_EMBEDDING: Final = "EmbeddingBackward0"
_MATRIX: Final = 2
_TWO_CLASSES: Final = 2


def ignored_classes(graph: LossGraph) -> Iterator[Pattern]:
    """A class that targets have, and that their loss ignores, if there is one target for each sample.

    Padding and the pixels of an unknown class are rightly ignored. So the scores must come straight from a layer whose
    rows are samples, not items of sequences, and no embedding may have as many rows as there are classes. The ignored
    class could be that of the samples without a label. So it may have no more than half of the samples, and the loss
    must be the only one, unless there are two classes: without one of them, only one answer is learned.
    """
    losses = graph.named(CLASS_LOSSES)
    for loss in losses:
        if loss.name() == CLASS_LOSS:
            yield from _ignored_class(graph, loss, is_only_loss=len(losses) == 1)


def _ignored_class(graph: LossGraph, loss: Any, is_only_loss: bool) -> Iterator[Pattern]:
    scores = node_before(loss, 0)
    layer = node_before(scores, 0) if scores is not None and scores.name() == LOG_SOFTMAX else None
    if scores is None or layer is None or layer.name() not in LAYERS or len(shape_of(scores)) != _MATRIX:
        return
    ignored, targets = saved_number(loss, "ignore_index"), saved_tensor(loss, "target")
    samples, classes = shape_of(scores)
    if ignored is None or targets is None or not 0 <= ignored < classes or samples > _MOST_TARGETS:
        return
    if any(saved_number(node, "weight_sym_argsize_0") in (classes, None) for node in graph.named((_EMBEDDING,))):
        return
    if any(_may_be_sequences(shape_of(node), samples) for node in graph.named(graph.names)):
        return
    count = tolist(targets).count(ignored)
    if count and (classes == _TWO_CLASSES or (is_only_loss and count * 2 <= samples)):
        yield Pattern(IGNORED, (samples, classes), dim=ignored, values=(float(count), float(samples)))


def _may_be_sequences(shape: tuple[int, ...], rows: int) -> bool:
    """Whether a tensor may hold as many items in sequences as there are rows of scores."""
    return len(shape) > _MATRIX and min(shape[:_MATRIX]) > 1 and shape[0] * shape[1] == rows
