"""Whether several traces say the same of the state of their models: of those that do, reading one tells of all."""

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
    """Takes the events of a trace, of which those count that a `StateReader` needs, gradients aside.

    Attributes:
        kinds: the classes of these. Others need not be given to `note`, which would take time for each.
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
        """Take the next event."""
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
        """The same, of all events so far, for traces that say the same, and for no others."""
        self._add()
        return self._hash.digest()

    def _add(self) -> None:
        self._hash.update(self._encode(self._noted))
        self._noted.clear()


def _definition(event: events.StateTensor) -> tuple[Any, ...]:
    return type(event).__name__, event.id, event.name, event.type, event.placements, event.statistics
