"""Records torch's global settings in each trace, and their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy_wrapper.events import Configuration
from proxy_wrapper.known.torch_settings import TorchSettings, autocast_now
from proxy_wrapper.levels import INFO
from proxy_wrapper.values.statistics import are_values_readable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy_wrapper.events import Setting
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.writing.channel import Channel


class Configurations:
    """Makes `Configuration` events."""

    def __init__(
        self,
        channels: Mapping[str, Channel],
        now_us: Callable[[], int],
        position: Callable[[], tuple[int, ThreadState]],
    ) -> None:
        """Set up without reading anything.

        Args:
            channels: the channels that get the events.
            now_us: returns the current time.
            position: returns the number of completed steps, and the state of the calling thread.
        """
        self._channels = channels
        self._now_us = now_us
        self._position = position
        self._settings = TorchSettings()
        self._last: tuple[Any, ...] = ()
        self._autocast: str | None = None
        # What was recorded in each trace, and at which look.
        self._told: dict[Channel, tuple[tuple[Any, ...], dict[str, Setting]]] = {}

    def look(self, *, with_autocast: bool) -> None:
        """Record the settings that have changed since the last look, or all of them in a new trace.

        Args:
            with_autocast: whether to include autocast, which is irrelevant to an optimizer step.
        """
        if not are_values_readable():
            return
        if with_autocast:
            self._autocast = autocast_now()
        found = self._settings.look(self._autocast)
        for channel in list(self._channels.values()):
            if channel.level <= INFO:
                told = self._told.get(channel)
                if told is None or told[0] != found:
                    self._tell(channel, found, {} if told is None else told[1])

    def begin_again(self, channel: Channel) -> None:
        """Record all settings in the new trace of a forked child."""
        if self._told.pop(channel, None) is not None:
            self._tell(channel, self._settings.look(self._autocast), {})

    def _tell(self, channel: Channel, found: tuple[Any, ...], before: Mapping[str, Setting]) -> None:
        now = self._settings.name(found)
        self._told[channel] = found, now
        changed = {name: value for name, value in now.items() if name not in before or before[name] != value}
        step, thread = self._position()
        channel.emit(Configuration(self._now_us(), step, 0, 0, thread.number, thread.stage, changed))
