"""Detects schedulers that set the learning rate of a resumed optimizer back to the start of their schedule.

optimizer.load_state_dict(checkpoint["optimizer"])          # with the rate of epoch 20
scheduler = LambdaLR(optimizer, schedule)                   # sets the rate of epoch 0
for epoch in range(checkpoint["epoch"] + 1, epochs):

That the state was loaded shows in the groups: an optimizer that has never stepped has another rate than the one that
its first scheduler starts from.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy_wrapper.code_lines.loop_starts import loop_starts
from proxy_wrapper.events import ScheduleRestart
from proxy_wrapper.levels import INFO

if TYPE_CHECKING:
    import torch

    from proxy_wrapper.tracer import Tracer


class _Resumed(NamedTuple):
    """The first scheduler of an optimizer with a loaded state.

    `rates` are the loaded rates of the groups, and `made` is the location where the scheduler is created.
    """

    scheduler: weakref.ref[Any]
    rates: tuple[float, ...]
    made: int


class RestartedSchedules:
    """Creates `ScheduleRestart` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._scheduled: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._resumed: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Resumed] = weakref.WeakKeyDictionary()

    def note_scheduler(self, scheduler: Any, made: int, *, has_stepped: bool) -> None:
        """Note a scheduler that is about to set its first rate. `has_stepped`: its optimizer has."""
        optimizer = scheduler.optimizer
        is_first = optimizer not in self._scheduled
        self._scheduled.add(optimizer)
        if not is_first or has_stepped or getattr(scheduler, "last_epoch", 0) != -1:
            return
        groups = optimizer.param_groups
        rates, initial = _rates(groups, "lr"), _rates(groups, "initial_lr")
        if len(rates) == len(initial) == len(groups) and rates != initial:
            self._resumed[optimizer] = _Resumed(weakref.ref(scheduler), rates, made)

    def is_scheduled(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether a scheduler was created for an optimizer."""
        return optimizer in self._scheduled

    def look(self, optimizer: torch.optim.Optimizer, number: int, location: int, now_us: int) -> None:
        """Report a schedule that begins anew, at the first step of its optimizer."""
        resumed = self._resumed.pop(optimizer, None)
        scheduler = None if resumed is None else resumed.scheduler()
        if resumed is None or scheduler is None or getattr(scheduler, "last_epoch", -1) != 0:
            return
        now = _rates(optimizer.param_groups, "lr")
        index = next((index for index, (a, b) in enumerate(zip(now, resumed.rates, strict=False)) if a != b), -1)
        tracer = self._tracer
        locator = tracer.locator
        starts = loop_starts(locator.user_frame(3), tracer.functions.find_any, locator.is_user_code)
        start = next((each for each in starts if each > 1), 0)  # Many programs count from 1.
        if index < 0 or not start:
            return
        thread = tracer.thread
        event = ScheduleRestart(
            *(now_us, tracer.step, 0, location, thread.number, thread.stage, number, type(scheduler).__name__),
            made=resumed.made,
            loaded_rate=resumed.rates[index],
            rate=now[index],
            start=start,
        )
        tracer.broadcast(event, location, level=INFO, also=(resumed.made,))


def _rates(groups: list[dict[str, Any]], key: str) -> tuple[float, ...]:
    """The rates under a key of the groups that are plain numbers."""
    return tuple(float(group[key]) for group in groups if type(group.get(key)) in (float, int))
