"""Digests the model state in traces. Of traces with equal digests, only one need be read."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec

from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.events import AnyEvent

_TOGETHER: Final = 1 << 12


class StateDigest:
    """Digests the events that a `StateReader` needs, without gradients.

    Attributes:
        kinds: the classes of these events. Passing others to `note` only takes time.
    """

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._noted: list[Any] = []
        self._encode = msgspec.msgpack.Encoder().encode
        self._tellers: dict[type, Callable[[Any], Any]] = {
            events.Backward: lambda _: "begin",
            events.OptimizerStep: lambda _: "begin",
            events.OptimizerStepEnd: lambda event: event.step,
            events.RunEnd: lambda event: (event.reason, event.error),
        }
        for event_class in (events.Parameter, events.Buffer, events.OptimizerState):
            self._tellers[event_class] = _definition
        self.kinds = frozenset((events.Update, *self._tellers))

    def note(self, event: AnyEvent) -> None:
        """Add an event."""
        noted = self._noted
        if isinstance(event, events.Update):
            # Most are. No tuple for each, which the garbage collector would count; only here do statistics, or None,
            # end what is told.
            noted += (event.tensor, event.step, event.statistics)
        else:
            tell = self._tellers.get(type(event))
            if tell is None:
                return
            noted.append(tell(event))
        if len(noted) >= _TOGETHER:
            self._add()

    def digest(self) -> bytes:
        """The digest of all events so far. It is equal only for traces with the same state."""
        self._add()
        return self._hash.digest()

    def _add(self) -> None:
        self._hash.update(self._encode(self._noted))
        self._noted.clear()


def _definition(event: events.StateTensor) -> tuple[Any, ...]:
    return type(event).__name__, event.id, event.name, event.type, event.placements, event.statistics
