"""Tallies what a process did in a step: calls, module outputs, and new values of parameters and buffers."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from proxy_trace.reading.names import MOST_DEFINITIONS
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy_wrapper.events import AnyEvent, Statistics

_KEPT: Final = 64
"""The number of outputs of a module in one step whose statistics are kept. The rest share one fingerprint."""


class Outputs:
    """The outputs of a module in a step: the statistics of each tensor, in order."""

    def __init__(self) -> None:
        self.kept: list[Statistics | None] = []
        self._more = blake2b(digest_size=8)
        self._has_more = False

    def add(self, statistics: Sequence[Statistics | None]) -> None:
        """Add the outputs of a call."""
        for each in statistics:
            if len(self.kept) < _KEPT:
                self.kept.append(each)
            else:
                self._has_more = True
                self._more.update(repr(each).encode() if each is None or each.bits is None else each.bits.encode())

    def all(self) -> list[Statistics | None]:
        """The statistics, with one item for all those beyond the maximum."""
        return [*self.kept, events.Statistics(bits=self._more.hexdigest())] if self._has_more else self.kept


class StepTally:
    """Counts the calls of a process, and collects the outputs of its modules, since the last `clear`.

    Attributes:
        calls: the number of calls of modules and of torch.
        outputs: by module id, in the order of first return.
        values: the latest statistics of each parameter and buffer, by id.
        changed: the ids of those that got new values.
    """

    def __init__(self, on_settings: Callable[[events.Configuration], None]) -> None:
        """Start empty. Torch settings are passed to `on_settings`."""
        self.calls = 0
        self.outputs: dict[int, Outputs] = {}
        self.values: dict[int, Statistics | None] = {}
        self.changed: set[int] = set()
        self._on_settings = on_settings

    def note(self, event: AnyEvent) -> None:
        """Add an event of the process."""
        kind = type(event)
        if kind in _CALLS:
            self.calls += 1
        elif isinstance(event, events.ReturnModule):
            if event.statistics is not None:
                outputs = self.outputs.get(event.module)
                if outputs is None:
                    outputs = self.outputs[event.module] = Outputs()
                outputs.add(event.statistics)
        elif isinstance(event, events.Update):
            if event.tensor in self.values:
                self.values[event.tensor] = event.statistics
                self.changed.add(event.tensor)
        elif isinstance(event, events.StateTensor):
            if event.id not in self.values and len(self.values) < MOST_DEFINITIONS:
                self.values[event.id] = event.statistics
        elif isinstance(event, events.Configuration):
            self._on_settings(event)

    def clear(self) -> None:
        """Forget the finished step."""
        self.calls = 0
        self.outputs.clear()
        self.changed.clear()


_CALLS: Final[frozenset[type]] = frozenset({events.CallModule, events.CallFunction, events.CallMethod})


def pair_up(
    first: Sequence[Statistics | None], second: Sequence[Statistics | None], is_same: Callable[..., bool]
) -> Iterator[tuple[Statistics, Statistics]]:
    """The first pair of outputs of two calls that differs; if none does, the first pair known in both, if any."""
    told = [(one, other) for one, other in zip(first, second, strict=False) if one is not None and other is not None]
    yield from [pair for pair in told if not is_same(*pair)][:1] or told[:1]
