"""The period during which a live observer changes what a thread computes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from torch._C import DisableTorchFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

    from proxy_wrapper.live import ChangingObserver
    from proxy_wrapper.tracer import Tracer


class LiveChange:
    """The connection of a changing observer to the tracer, from its addition to its end."""

    def __init__(
        self,
        tracer: Tracer,
        observer: ChangingObserver,
        take_down_if_idle: Callable[[Tracer], None],
        is_blacklisted: Callable[[nn.Module], bool],
    ) -> None:
        """Add `observer` to this thread. Until `end`, it replaces any other changing observer."""
        self._before = tracer.thread.change
        tracer.add_change(observer)
        tracer.count_change(1)
        self._tracer = tracer
        self._observer = observer
        self._take_down_if_idle = take_down_if_idle
        self._thread = tracer.thread
        self.is_blacklisted = is_blacklisted

    @property
    def is_seen_by_others(self) -> bool:
        """Whether anything else observes torch calls: another live observer, or a trace at level DEBUG."""
        return self._thread.live is not self._observer or self._tracer.is_debugging

    def tell(self, what: str) -> None:
        """Notify the thread's live observers that the program continues with a replacement for `what`."""
        if self._thread.live is not None:
            self._thread.live.changed(what)

    @contextlib.contextmanager
    def seen(self) -> Iterator[None]:
        """Let others observe the torch calls in this block, although it runs inside one."""
        calls = self._tracer.torch_calls
        if calls is None or not self._tracer.is_observed_live:
            yield
            return
        found = calls.enter_engine()
        try:
            yield
        finally:
            calls.leave_engine(found)

    def end(self) -> None:
        """Remove the observer. May be called from any thread."""
        tracer = self._tracer
        with tracer.lock, DisableTorchFunction():
            tracer.count_change(-1)
            is_in_use = self._thread.change is self._observer
            tracer.remove_live(self._observer, self._thread)
            if is_in_use and self._before is not None and self._thread is tracer.thread:
                tracer.add_change(self._before)
            if tracer.ends_with_blocks and not tracer.is_observed_live:
                tracer.ends_with_blocks = False
                self._take_down_if_idle(tracer)
