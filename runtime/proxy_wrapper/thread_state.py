"""What a thread is doing: the proxied modules that it is calling, and the stage that it is in."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from proxy_wrapper.events import TRAIN

if TYPE_CHECKING:
    import weakref

    from torch import nn

    from proxy_wrapper.registry import ModuleEntry


class ThreadState(threading.local):
    """What is known of the thread that looks at it."""

    def __init__(self) -> None:
        self.stack: list[ActiveCall] = []
        self.number = 0 if threading.current_thread() is threading.main_thread() else threading.get_native_id()
        self.optimizer_location = 0
        self.optimizer_frame = 0  # The `id` of the frame that the optimizer's step runs in.
        self.optimizer_began_us = 0
        self.torch_calls = 0
        self.suspended_calls = 0  # Torch calls around the backward pass that it is in.
        self.aside: list[weakref.ref[nn.Module]] = []  # Modules on the blacklist that it is calling.
        self.mode = TRAIN
        self.stage = TRAIN
        self.checked: set[int] = set()
        self._ordinals: dict[tuple[int, str], int] = {}
        self._ordinals_step = 0

    def enter_root(self) -> None:
        """Begin to count anew: a module is called that no other proxied one is calling."""
        self.checked.clear()
        self._ordinals.clear()

    def ordinal(self, location: int, target: str, step: int) -> int:
        """How often `target` was called at `location` before, in the same call of the enclosing module."""
        stack = self.stack  # Once: each look-up here asks which thread it is.
        if stack:
            counts = stack[-1].ordinals
        else:
            if step != self._ordinals_step:
                self._ordinals_step = step
                self._ordinals.clear()
            counts = self._ordinals
        key = (location, target)
        ordinal = counts.get(key, 0)
        counts[key] = ordinal + 1
        return ordinal


class ActiveCall:
    """A call of a proxied module that has not returned."""

    __slots__ = ("entry", "exception_id", "ordinals", "started_us")

    def __init__(self, entry: ModuleEntry, started_us: int, exception_id: int) -> None:
        self.entry = entry
        self.started_us = started_us
        self.exception_id = exception_id
        self.ordinals: dict[tuple[int, str], int] = {}
