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
    """Consumes events. It must not touch the program.

    `observe` is called on the thread that created the event, while the program waits. It should store the event and
    return. If it raises, the observer is dropped, the user is told once, and training goes on.
    """

    def observe(self, event: AnyEvent) -> None:
        """Take one event."""

    def flush(self) -> None:
        """Finish processing all events so far."""

    def close(self) -> None:
        """Finish processing for good."""


class Channel:
    """Passes the events of one `logdir` to its observers, and each location before its first use."""

    def __init__(
        self, logdir: str, locations: dict[int, Location], report: Callable[[str], None], lock: threading.RLock
    ) -> None:
        """Start without observers.

        Args:
            logdir: the `logdir` as the user gave it.
            locations: all locations so far by id, shared by all channels and filled by the locator.
            report: called with a message when an observer has failed.
            lock: held while locations are defined, and while observers are added and removed.
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
        # Called before each event, to emit events that must precede it.
        self.before_event: Callable[[], None] | None = None

    def add(self, observer: Observer) -> None:
        """Pass all events to `observer` from now on."""
        with self._lock:
            self._observers = (*self._observers, observer)

    def emit(self, event: AnyEvent, location: int = 0) -> None:
        """Pass `event`, which refers to `location`, to every observer."""
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
        """Define another location to which the next event refers, besides its own."""
        if location not in self._located:
            self._locate(location)

    def emit_all(self, events: Sequence[AnyEvent], location: int) -> None:
        """Pass `events`, which all refer to `location`, to every observer."""
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
        """Flush every observer."""
        for observer in self._observers:
            try:
                observer.flush()
            except Exception as error:  # noqa: BLE001, PERF203
                self._drop(observer, error)

    def close(self) -> None:
        """Close every observer."""
        with self._lock:
            observers, self._observers = self._observers, ()
        for observer in observers:
            try:
                observer.close()
            except Exception as error:  # noqa: BLE001, PERF203
                self._drop(observer, error)

    def restart(self, prologue: Callable[[], None]) -> None:
        """Begin a new trace in a forked child. Before the first event, `prologue` defines everything again."""
        self._prologue = prologue
        self._located.clear()  # Even "no location" is then undefined, so the first event triggers the prologue.

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
                self._located.add(location)  # Only now, because other threads then rely on the definition.

    def _drop(self, observer: Observer, error: Exception) -> None:
        if comes_from_signal_handler(error):
            raise error
        with self._lock:
            self._observers = tuple(other for other in self._observers if other is not observer)
        self._report(
            f"the observer {type(observer).__name__} for {self.logdir!r} failed and is no longer called: "
            f"{type(error).__name__}: {error}"
        )
