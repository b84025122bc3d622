"""Bends: which callback is applied to what."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from proxy_views.bending.callback import Callback
    from proxy_views.bending.targets import Target


class Bend:
    """One callback, and what it is put on.

    Attributes:
        model: whose targets they are.
        targets: what is bent.
        callback: what is done to it.
        known: the names of all nodes that there are, where a trace has told them.
        count: how often the callback was called.
        met: the targets among activations that a call of the model has had.
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
    """A bend, the one of its targets that is meant, and what that is called."""

    bend: Bend
    target: Target
    name: str
