"""Looks for batches that come in the order of their classes, epoch after epoch, because nothing shuffles them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.events import GraphPattern
from proxy_wrapper.levels import INFO
from proxy_wrapper.loss_graph.nodes import CLASS_LOSS, SCALED, only_node_before
from proxy_wrapper.loss_graph.saved_tensors import saved_tensor
from proxy_wrapper.values.statistics import unobserved
from proxy_wrapper.values.torch_functions import aminmax, item, numel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from proxy_wrapper.tracer import Tracer

IN_ORDER: Final = "classes-in-order"

_MOST_PLACES: Final = 100
_FEWEST_BATCHES: Final = 4
_FEWEST_TARGETS: Final = 32
"""The fewest targets of an epoch: fewer may be in order by chance."""
_NEAREST: Final = 3
"""The most nodes that scale a loss."""


class _Order:
    """The classes of the batches at one place: those of the first epoch so far, or those of it and of the second one.

    Attributes:
        step: how many steps had ended at the last batch.
        lowest: the lowest class of the first batch.
        highest: the highest class so far in this epoch.
        batches: the number of batches so far in this epoch.
        targets: the number of targets so far in both epochs.
        first: the number of batches of the first epoch and its highest class; None before the second one.
    """

    __slots__ = ("batches", "first", "highest", "lowest", "step", "targets")

    def __init__(self, lowest: int, highest: int, targets: int, step: int) -> None:
        self.lowest, self.highest, self.targets, self.step = lowest, highest, targets, step
        self.batches = 1
        self.first: tuple[int, int] | None = None

    def follow(self, lowest: int, highest: int, targets: int, step: int) -> bool:
        """Whether the classes of another batch, after a step, are in order."""
        is_next = step == self.step + 1
        self.step = step
        self.targets += targets
        if lowest >= self.highest:
            self.batches += 1
        elif self.first is None and lowest == self.lowest < self.highest and self.batches >= _FEWEST_BATCHES:
            self.first, self.batches = (self.batches, self.highest), 1
        else:
            return False
        self.highest = highest
        return is_next

    @property
    def is_repeated(self) -> bool:
        """Whether the second epoch has ended like the first."""
        return self.first == (self.batches, self.highest) and self.targets >= 2 * _FEWEST_TARGETS


class ClassOrders:
    """Creates `GraphPattern` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        # None where batches were not in order, or have been reported.
        self._orders: dict[int, _Order | None] = {}

    def look(self, roots: Sequence[torch.Tensor], location: int) -> None:
        """Examine the targets of a backward pass, right before it begins."""
        known = self._orders.get(location)
        if len(roots) != 1 or (known is None and (location in self._orders or len(self._orders) >= _MOST_PLACES)):
            return
        found = _classes(roots[0].grad_fn)
        step = self._tracer.step
        if found is None:
            self._orders[location] = None
        elif known is None:
            self._orders[location] = _Order(*found, step)
        elif not known.follow(*found, step):
            self._orders[location] = None
        elif known.is_repeated:
            self._orders[location] = None
            self._emit(known, location)

    def _emit(self, order: _Order, location: int) -> None:
        tracer, thread = self._tracer, self._tracer.thread
        values = (float(order.batches), float(order.lowest), float(order.highest))
        event = GraphPattern(
            *(tracer.now_us(), tracer.step, 0, location, thread.number, thread.stage, IN_ORDER), (), 0, (), values
        )
        tracer.broadcast(event, location, level=INFO)


def _classes(node: Any) -> tuple[int, int, int] | None:
    """The lowest and the highest class among the targets of a loss, and their number; None if it has none to read."""
    for _ in range(_NEAREST):
        if node is None or node.name() not in SCALED:
            break
        node = only_node_before(node)
    if node is None or node.name() != CLASS_LOSS:
        return None
    with unobserved() as readable:
        targets = saved_tensor(node, "target") if readable else None
        if targets is None or not numel(targets):
            return None
        lowest, highest = map(int, map(item, aminmax(targets)))
        return lowest, highest, numel(targets)
