"""The stream of events of one `logdir`, and the observers that consume it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy_wrapper.levels import WARNING
from proxy_wrapper.limits import Limits
from proxy_wrapper.process.signal_handlers import comes_from_signal_handler

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from proxy_wrapper.events import AnyEvent, Location


class Observer(Protocol):
    """Consumes events. It knows no torch hook, and must not touch the program.

    `observe` is called on the thread that made the event, while the program waits: it should keep the event and
    return. If it raises, it is dropped, the user is told once, and training goes on.
    """

    def observe(self, event: AnyEvent) -> None:
        """Take one event."""

    def flush(self) -> None:
        """Finish with all events taken so far."""

    def close(self) -> None:
        """Finish for good."""


class Channel:
    """Gives the events of one `logdir` to its observers, each location before its first use."""

    def __init__(
        self, logdir: str, locations: dict[int, Location], report: Callable[[str], None], lock: threading.RLock
    ) -> None:
        """Start without observers.

        Args:
            logdir: the `logdir` as the user gave it.
            locations: every location so far by id; shared by all channels and filled by the locator.
            report: called with a sentence when an observer failed.
            lock: held while locations are defined, and observers come and go.
        """
        self.logdir = logdir
        self._locations = locations
        self._located: set[int] = {0}
        self._observers: tuple[Observer, ...] = ()
        self._report = report
        self._lock = lock
        self._prologue: Callable[[], None] | None = None
        self.level = WARNING
        self.limits = Limits()
        # Called before each event, to make those that come before it.
        self.before_event: Callable[[], None] | None = None

    def add(self, observer: Observer) -> None:
        """Let `observer` have all events from now on."""
        with self._lock:
            self._observers = (*self._observers, observer)

    def emit(self, event: AnyEvent, location: int = 0) -> None:
        """Give `event`, which refers to `location`, to every observer."""
        if self.before_event is not None:
            self.before_event()
        if location not in self._located:
            self._locate(location)
        for observer in self._observers:
            try:
                observer.observe(event)
            except Exception as error:  # noqa: BLE001, PERF203  An observer's mistake must not reach the program.
                self._drop(observer, error)

    def define_location(self, location: int) -> None:
        """Define a location that the next event refers to besides its own."""
        if location not in self._located:
            self._locate(location)

    def emit_all(self, events: Sequence[AnyEvent], location: int) -> None:
        """Give `events`, which all refer to `location`, to every observer."""
        if self.before_event is not None:
            self.before_event()
        if location not in self._located:
            self._locate(location)
        for observer in self._observers:
            try:
                for event in events:
                    observer.observe(event)
            except Exception as error:  # noqa: BLE001, PERF203
                self._drop(observer, error)

    def flush(self) -> None:
        """Let every observer finish with the events so far."""
        for observer in self._observers:
            try:
                observer.flush()
            except Exception as error:  # noqa: BLE001, PERF203
                self._drop(observer, error)

    def close(self) -> None:
        """Let every observer finish for good."""
        with self._lock:
            observers, self._observers = self._observers, ()
        for observer in observers:
            try:
                observer.close()
            except Exception as error:  # noqa: BLE001, PERF203
                self._drop(observer, error)

    def restart(self, prologue: Callable[[], None]) -> None:
        """Begin a new trace in a forked child: before the first event, `prologue` defines everything again."""
        self._prologue = prologue
        self._located.clear()  # Even "no location" is new then, so the first event finds the prologue.

    def _locate(self, location: int) -> None:
        with self._lock:
            prologue, self._prologue = self._prologue, None
            if prologue is not None:
                self._located.add(0)
                prologue()
            if location == 0:
                self._located.add(0)
            elif location not in self._located:
                definition = self._locations[location]
                self.emit(definition, definition.caller)
                self._located.add(location)  # Only now: other threads take it from here that it is defined.

    def _drop(self, observer: Observer, error: Exception) -> None:
        if comes_from_signal_handler(error):
            raise error
        with self._lock:
            self._observers = tuple(other for other in self._observers if other is not observer)
        self._report(
            f"the observer {type(observer).__name__} for {self.logdir!r} failed and is no longer called: "
            f"{type(error).__name__}: {error}"
        )
