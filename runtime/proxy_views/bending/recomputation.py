"""Has activation checkpoints compute again with the bends of the forward pass, whatever is bent by then."""

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
    """All that a checkpoint needs to compute again what it has computed.

    Attributes:
        bends: those that there were.
        stack: the calls of modules that the checkpoint was called in.
        methods: the calls of methods.
        scopes: those that names were given in.
        values: of the parameters of the callbacks.
    """

    bends: tuple[Bend, ...]
    stack: tuple[nn.Module, ...]
    methods: tuple[tuple[nn.Module, str], ...]
    scopes: tuple[NamingScope, ...]
    values: tuple[tuple[BendingParameter, float], ...]


class ResumableCalls(MethodListener, Protocol):
    """What bends calls, and can go on from a snapshot."""

    def resume(self, snapshot: Snapshot) -> None:
        """Go on from where the snapshot was taken."""

    def begin(self) -> None:
        """Begin to bend the calls of this thread."""

    def end(self) -> None:
        """Bend no more calls."""

    def seen(self) -> contextlib.AbstractContextManager[None]:
        """A block in which the calls of this thread are bent."""
        ...


@contextlib.contextmanager
def recomputing(snapshot: Snapshot, calls: ResumableCalls) -> Iterator[None]:
    """Bend in this block as it was done when `snapshot` was taken, on whichever thread, by `calls`, which are new."""
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
