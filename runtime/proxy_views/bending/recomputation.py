"""Makes activation checkpoints recompute with the bends of the forward pass, whatever is bent by then."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple, Protocol

from proxy_views.bending.methods import MethodListener, watch_methods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from proxy_views.bending.bends import Bend
    from proxy_views.bending.naming_scope import NamingScope
    from proxy_views.bending.parameter import BendingParameter


class Snapshot(NamedTuple):
    """Everything that a checkpoint needs to repeat its computation.

    Attributes:
        bends: the bends at that time.
        stack: the module calls around the checkpoint.
        methods: the method calls around it.
        scopes: the naming scopes around it.
        values: the values of the callbacks' parameters.
    """

    bends: tuple[Bend, ...]
    stack: tuple[nn.Module, ...]
    methods: tuple[tuple[nn.Module, str], ...]
    scopes: tuple[NamingScope, ...]
    values: tuple[tuple[BendingParameter, float], ...]


class ResumableCalls(MethodListener, Protocol):
    """Bends calls, and can continue from a snapshot."""

    def resume(self, snapshot: Snapshot) -> None:
        """Continue from where the snapshot was taken."""

    def begin(self) -> None:
        """Start to bend the calls of this thread."""

    def end(self) -> None:
        """Stop bending."""

    def seen(self) -> contextlib.AbstractContextManager[None]:
        """A block in which this thread's torch calls are observed."""
        ...


@contextlib.contextmanager
def recomputing(snapshot: Snapshot, calls: ResumableCalls) -> Iterator[None]:
    """Bend in this block as when `snapshot` was taken, on the present thread, with the new object `calls`."""
    calls.resume(snapshot)
    now = [(parameter, parameter.value) for parameter, _ in snapshot.values]
    calls.begin()
    watches = [each for bend in snapshot.bends for each in watch_methods(bend, calls)]
    try:
        for parameter, value in snapshot.values:
            parameter.value = value
        with calls.seen():
            yield
    finally:
        for parameter, value in now:
            parameter.value = value
        for each in watches:
            each.end()
        calls.end()
