"""Finds dropout that stays active in evaluation mode because it is not told the mode.

Nothing is replaced. The states of the random generators show which modules draw random numbers in the first
evaluation calls of a model. The code of such a module's `forward` shows what draws them.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.code_lines.random_calls import always_dropping
from proxy_wrapper.events import ActiveDropout
from proxy_wrapper.known.drawn_numbers import DrawnNumbers
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.called_functions import body_of

if TYPE_CHECKING:
    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.tracer import Tracer

_MASKS: Final = frozenset({"rand", "rand_like", "uniform_", "bernoulli", "bernoulli_"})


class ActiveDropouts:
    """Makes `ActiveDropout` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        # The classes whose code has been read.
        self._classes: weakref.WeakSet[type] = weakref.WeakSet()

    def begin(self, thread: ThreadState) -> None:
        """Begin to watch an outermost module call in evaluation mode."""
        thread.draws = DrawnNumbers()

    def end(self, thread: ThreadState) -> None:
        """End the watch, and report the modules that draw numbers for dropout."""
        draws, thread.draws = thread.draws, None
        for entry in () if draws is None else draws.drawn:
            module = entry.module()
            if module is not None and type(module) not in self._classes:
                self._classes.add(type(module))
                self._judge(entry, type(module), module.__dict__.get("forward"), thread)

    def _judge(self, entry: ModuleEntry, owner: type, own: Any, thread: ThreadState) -> None:
        """Emit an event if the code of a module that has drawn random numbers always drops values."""
        tracer = self._tracer
        function: Any = getattr(owner, "forward", None)
        body = body_of(function)
        if body is None or own is not None or entry.level > INFO or not tracer.locator.is_user_code(body.code):
            return
        found = always_dropping(body, tracer.functions, tracer.locator.is_user_code)
        location = 0 if found is None else tracer.locator.line(found.at)
        if found is not None and location:
            name = f"mask of `{found.function}`" if found.function in _MASKS else found.function
            event = ActiveDropout(tracer.now_us(), tracer.step, entry.id, location, thread.number, thread.stage, name)
            entry.channel.emit(event, location)
