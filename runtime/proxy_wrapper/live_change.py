"""A live observer that changes what a thread computes, for as long as it does."""

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
    """What an observer has to do with the tracing around it, and the end of it."""

    def __init__(
        self,
        tracer: Tracer,
        observer: ChangingObserver,
        take_down_if_idle: Callable[[Tracer], None],
        is_blacklisted: Callable[[nn.Module], bool],
    ) -> None:
        """Add `observer` to this thread, until the end in the place of another one that it may have."""
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
        """Whether anybody else sees the calls of torch: another live observer, or a trace at level DEBUG."""
        return self._thread.live is not self._observer or self._tracer.is_debugging

    def tell(self, what: str) -> None:
        """Tell the thread's live observers that the program goes on with another value in the place of `what`."""
        if self._thread.live is not None:
            self._thread.live.changed(what)

    @contextlib.contextmanager
    def seen(self) -> Iterator[None]:
        """Let others see the calls of torch in this block, although it is inside one."""
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
        """Let the observer see nothing any more, from whichever thread this is called."""
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
