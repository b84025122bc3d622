"""Bends: a callback and the targets it is applied to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from proxy_views.bending.callback import Callback
    from proxy_views.bending.targets import Target


class Bend:
    """One callback and its targets.

    Attributes:
        model: the model that the targets belong to.
        targets: what is bent.
        callback: what is applied.
        is_known: whether the names of nodes were taken from a trace.
        count: how often the callbacks were applied, except by recomputation.
        met: the activation targets that have occurred in a call of the model.
    """

    def __init__(self, model: nn.Module, targets: Sequence[Target], callback: Callback, *, is_known: bool) -> None:
        self.model = model
        self.targets = tuple(targets)
        self.callback = callback
        self.row = callback.row()
        self.is_known = is_known
        self.count = 0
        self.met: set[Target | str] = set()


class Bent(NamedTuple):
    """A bend, one of its targets, and the name of what is bent."""

    bend: Bend
    target: Target
    name: str
