"""Observes the settings of optimizers: learning rates and other numbers, and which parameters they have."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from proxy_wrapper.code_lines.loop_targets import loop_target
from proxy_wrapper.code_lines.named_lines import call_line
from proxy_wrapper.events import Optimizer, ParameterGroup, RateWithoutEffect
from proxy_wrapper.intercept.state.loaded_rates import look_at_loaded_rate
from proxy_wrapper.intercept.state.restarted_schedules import RestartedSchedules
from proxy_wrapper.known.plain_settings import plain_settings
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.assigned_lines import attribute_assigned, key_assigned
from proxy_wrapper.program_code.called_functions import body_at
from proxy_wrapper.program_code.frame_variables import values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    from proxy_wrapper.events import Setting
    from proxy_wrapper.known.state_tensors import StateTensors
    from proxy_wrapper.tracer import Tracer


class _Known:
    """What was last recorded of an optimizer.

    Attributes:
        id: its number in the trace.
        groups: its recorded groups.
        identities: the ids of the tensors in each group.
        of_modules: how many of these belong to proxied modules.
        channels: the channels that have the definition.
        made: the location where it was created; 0 if unknown.
        has_stepped: whether it has stepped.
        passes: the number of backward passes begun when it last stepped, or was created.
        rates: the learning rates with which its groups were created; () if unknown.
        loop: the target of the innermost loop in which it was created; "" if there is none.
        misplaced: the learning rates found under names that it does not read: the first value of each, and the rate
            in effect then.
        reported: the names already reported.
    """

    __slots__ = (
        "channels",
        "groups",
        "has_stepped",
        "id",
        "identities",
        "loop",
        "made",
        "misplaced",
        "of_modules",
        "passes",
        "rates",
        "reported",
    )

    def __init__(
        self, number: int, made: int = 0, passes: int = 0, rates: tuple[float, ...] = (), loop: str = ""
    ) -> None:
        self.id = number
        self.made = made
        self.loop = loop
        self.has_stepped = False
        self.passes = passes
        self.rates = rates
        self.groups: list[ParameterGroup] = []
        self.identities: list[tuple[int, ...]] = []
        self.of_modules = 0
        self.channels: tuple[str, ...] = ()
        self.misplaced: dict[str, tuple[object, object]] = {}
        self.reported: set[str] = set()


class LastEvent(NamedTuple):
    """An optimizer's id, and its last event: "nothing", a "backward" pass since its last step, or a "step"."""

    id: int
    last: str


class OptimizerSettings:
    """Creates `Optimizer` and `RateWithoutEffect` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._known: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Known] = weakref.WeakKeyDictionary()
        self._new: list[weakref.ref[torch.optim.Optimizer]] = []
        self._restarts = RestartedSchedules(tracer)
        self._made = 0
        self._passes = 0
        # The targets of loops in which optimizers are created, by the location of that.
        self._loops: dict[int, str] = {}

    def note_made(self, optimizer: torch.optim.Optimizer, location: int) -> None:
        """Note where an optimizer is created; it has no parameters yet. It is known already if its state is loaded."""
        if optimizer in self._known:
            return
        self._made += 1
        tracer = self._tracer
        loop = self._loops.get(location) if location else None
        if loop is None:  # Programs may create an optimizer for each sample.
            locator = tracer.locator
            loop = loop_target(locator.user_frame(), tracer.functions.find_any, locator.is_user_code)
            self._loops[location] = loop
        self._known[optimizer] = _Known(self._made, location, self._passes, _rates_given(sys._getframe(1)), loop)
        self._new.append(weakref.ref(optimizer))

    def before_backward(self, states_of: Callable[[torch.optim.Optimizer], StateTensors]) -> None:
        """Record the optimizers with proxied parameters that were created since the last backward pass."""
        self._passes += 1
        if not self._new:
            return
        new, self._new = self._new, []
        for reference in new:
            optimizer = reference()
            known = None if optimizer is None else self._known.get(optimizer)
            if optimizer is None or known is None or known.groups or not hasattr(optimizer, "param_groups"):
                continue
            states = states_of(optimizer)
            if states:
                self.look(optimizer, states, known.made, self._tracer.now_us())

    def after_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that an optimizer has stepped."""
        known = self._known.get(optimizer)
        if known is not None:
            known.has_stepped, known.passes = True, self._passes

    def note_scheduler(self, scheduler: Any, made: int) -> None:
        """Note where a scheduler is created; it is about to set its first rate."""
        known = self._known.get(scheduler.optimizer)
        if known is not None:
            self._restarts.note_scheduler(scheduler, made, has_stepped=known.has_stepped)

    def last_event_of(self, optimizer: torch.optim.Optimizer) -> LastEvent | None:
        """An optimizer's last event; None if it was created before anything was proxied and never stepped."""
        known = self._known.get(optimizer)
        if known is None:
            return None
        if known.passes < self._passes:
            return LastEvent(known.id, "backward")
        return LastEvent(known.id, "step" if known.has_stepped else "nothing")

    def count_passes(self) -> int:
        """How many backward passes have begun."""
        return self._passes

    def have_been_stepped(self, gradients: frozenset[int]) -> bool:
        """Whether an optimizer has stepped with these gradients, by `id`, since the last backward pass."""
        return any(
            not gradients.isdisjoint(id(each.grad) for each in group["params"])
            for optimizer, known in list(self._known.items())
            if known.has_stepped and known.passes == self._passes
            for group in optimizer.param_groups
        )

    def look(self, optimizer: torch.optim.Optimizer, states: StateTensors, location: int, now_us: int) -> int:
        """Record what has changed in an optimizer's settings since its last step.

        Args:
            optimizer: the optimizer that steps.
            states: its parameters that belong to proxied modules.
            location: where it steps.
            now_us: the time, in microseconds since the trace began.

        Returns:
            The id of the optimizer.
        """
        known = self._known.get(optimizer)
        channels = tuple(self._tracer.channels)
        if known is None:
            self._made += 1
            known = self._known[optimizer] = _Known(self._made)
        # A new channel has no definitions. A parameter that left its module counts among the others.
        is_new = (known.channels, known.of_modules) != (channels, len(states))
        known.channels, known.of_modules = channels, len(states)
        if is_new or len(known.groups) != len(optimizer.param_groups):
            known.groups, known.identities = [], []
        is_first = not known.groups
        changed: dict[int, ParameterGroup] = {}
        for index, group in enumerate(optimizer.param_groups):
            settings = plain_settings(group)
            identities = tuple(map(id, group["params"]))
            if index >= len(known.groups):
                known.groups.append(self._group(settings, identities, states))
                known.identities.append(identities)
                changed[index] = known.groups[index]
                continue
            before = known.groups[index]
            if identities != known.identities[index]:
                known.groups[index] = changed[index] = self._group(settings, identities, states)
                known.identities[index] = identities
            elif settings != before.settings:
                known.groups[index] = ParameterGroup(settings, before.tensors, before.others)
                moved = {name: value for name, value in settings.items() if before.settings.get(name, _NEW) != value}
                changed[index] = ParameterGroup(moved)
        if changed:
            made, clears = (known.made, self._line_of_clearing()) if is_first else (0, 0)
            now = [group.settings.get("lr") for group in known.groups]
            is_overwritten = is_first and len(now) == len(known.rates) and len({*now}) == 1 < len({*known.rates})
            rates = known.rates if is_overwritten else ()
            moves_alone = _moves_first_alone(known, changed) and _FIRST_MOVED not in known.reported
            if moves_alone:
                known.reported.add(_FIRST_MOVED)
            overwrites = self._line_of_rates() if is_overwritten or moves_alone else 0
            loop = known.loop if is_first else ""
            name = type(optimizer).__name__
            self._emit(known.id, made, clears, rates, overwrites, loop, name, changed, location, now_us)
        self._look_for_misplaced(optimizer, known, location, now_us)
        return known.id

    def before_step(self, optimizer: torch.optim.Optimizer, states: StateTensors, location: int, now_us: int) -> int:
        """Record what has changed, as `look` does, and at the first step, which rate a loaded optimizer begins with."""
        number = self.look(optimizer, states, location, now_us)
        self._restarts.look(optimizer, number, location, now_us)
        known = self._known[optimizer]
        if not (known.has_stepped or self._restarts.is_scheduled(optimizer)):
            look_at_loaded_rate(self._tracer, optimizer, number, known.made, known.rates, location)
        return number

    def _line_of_clearing(self) -> int:
        """The location of the only line that calls `zero_grad` in the innermost function of the program; else 0."""
        locator = self._tracer.locator
        frame = locator.user_frame()
        return 0 if frame is None else locator.line(call_line([body_at(frame)], "zero_grad"))

    def _line_of_rates(self) -> int:
        """The location of a line that assigns the learning rate of a group; 0 if there is none."""
        locator = self._tracer.locator
        frame = locator.user_frame()
        return 0 if frame is None else locator.line(key_assigned(frame, "lr"))

    def _look_for_misplaced(self, optimizer: torch.optim.Optimizer, known: _Known, location: int, now_us: int) -> None:
        """Report each name under which a learning rate is set that the optimizer does not read, once.

        An attribute of PyTorch's own optimizers that differs from the rate is enough. A key of a group may be the
        program's own note, so it must have changed while the rate has not.
        """
        group = optimizer.param_groups[0] if optimizer.param_groups else {}
        rate = group.get("lr")
        for name in _ATTRIBUTES:
            value = vars(optimizer).get(name)
            is_own = value is not None and type(optimizer).__module__.startswith("torch.optim.")
            if is_own and _are_different_numbers(value, rate) and name not in known.reported:
                self._tell_misplaced(known, name, location, now_us, is_key=False)
        for name in _KEYS:
            if name in group and name not in known.reported:
                value = group[name]
                first, first_rate = known.misplaced.setdefault(name, (value, rate))
                if _are_different_numbers(first, value) and first_rate == rate:
                    self._tell_misplaced(known, name, location, now_us, is_key=True)

    def _tell_misplaced(self, known: _Known, name: str, location: int, now_us: int, *, is_key: bool) -> None:
        known.reported.add(name)
        tracer = self._tracer
        frame = tracer.locator.user_frame(3)
        find = key_assigned if is_key else attribute_assigned
        made = 0 if frame is None else tracer.locator.line(find(frame, name))
        thread = tracer.thread
        event = RateWithoutEffect(
            now_us, tracer.step, 0, location, thread.number, thread.stage, known.id, name, is_key, made
        )
        tracer.broadcast(event, location, level=INFO, also=(made,))

    @staticmethod
    def _group(settings: dict[str, Setting], identities: tuple[int, ...], states: StateTensors) -> ParameterGroup:
        ids = {id(tensor): state.id for state, tensor in states}
        tensors = tuple(ids[identity] for identity in identities if identity in ids)
        return ParameterGroup(settings, tensors, len(identities) - len(tensors))

    def _emit(
        self,
        number: int,
        made: int,
        clears: int,
        rates: tuple[float, ...],
        overwrites: int,
        loop: str,
        name: str,
        changed: Mapping[int, ParameterGroup],
        location: int,
        now_us: int,
    ) -> None:
        tracer = self._tracer
        thread = tracer.thread
        event = Optimizer(
            now_us,
            tracer.step,
            0,
            location,
            thread.number,
            thread.stage,
            number,
            name,
            tuple(changed.values()),
            tuple(changed),
            made,
            clears,
            rates,
            overwrites,
            loop,
        )
        tracer.broadcast(event, location, level=INFO, also=(made, clears, overwrites))


def _moves_first_alone(known: _Known, changed: Mapping[int, ParameterGroup]) -> bool:
    """Whether the rate of the first of several groups has changed, and no other one."""
    return len(known.groups) > 1 and [index for index, group in changed.items() if "lr" in group.settings] == [0]


def _rates_given(frame: FrameType | None) -> tuple[float, ...]:
    """The learning rates of the groups that an optimizer is being created from; () if unknown or not plain numbers."""
    while frame is not None and frame.f_code is not torch.optim.Optimizer.__init__.__code__:
        frame = frame.f_back
    given: Mapping[str, Any] = {} if frame is None else values_of(frame)
    groups, defaults = given.get("params"), given.get("defaults")
    if type(defaults) is not dict:
        return ()
    if type(groups) is not list or not all(type(each) is dict for each in groups):
        groups = [{}]  # Parameters without groups: one group has them.
    rates: tuple[Any, ...] = tuple(each.get("lr", defaults.get("lr")) for each in groups)
    return rates if all(type(each) is float for each in rates) else ()


def _are_different_numbers(one: object, other: object) -> bool:
    """Whether both are plain numbers and differ."""
    return type(one) in (int, float) and type(other) in (int, float) and one != other


_ATTRIBUTES: Final = ("lr", "learning_rate")
_KEYS: Final = ("learning_rate", "learningrate", "lrate", "LR", "Lr", "l_r")
"""Names under which programs set a learning rate that no optimizer of PyTorch reads."""

_FIRST_MOVED: Final = "lr of the first group"
"""What is noted among these names when the rate of the first group has changed alone."""

_NEW: Final = object()
