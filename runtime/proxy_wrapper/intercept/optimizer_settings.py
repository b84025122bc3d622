"""Sees what optimizers are set to: their learning rates and other numbers, and which parameters they have."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.events import Optimizer, ParameterGroup, RateWithoutEffect
from proxy_wrapper.known.plain_settings import plain_settings
from proxy_wrapper.levels import INFO
from proxy_wrapper.places.assigned_lines import attribute_assigned, key_assigned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    from proxy_wrapper.events import Setting
    from proxy_wrapper.known.state_tensors import StateTensors
    from proxy_wrapper.tracer import Tracer


class _Known:
    """What was recorded of an optimizer last.

    Attributes:
        id: its number.
        groups: what its groups were.
        identities: of what tensors they consisted.
        of_modules: how many of these a proxied module had.
        channels: who knows.
        made: the location where it was made; 0 if that was not seen.
        has_stepped: whether it has.
        passes: how many backward passes there had been when it stepped last, or was made.
        misplaced: the learning rates that it was given where it reads none, by their names: the first of each, and
            that which it reads.
        told: the names of those that were recorded.
    """

    __slots__ = (
        "channels",
        "groups",
        "has_stepped",
        "id",
        "identities",
        "made",
        "misplaced",
        "of_modules",
        "passes",
        "told",
    )

    def __init__(self, number: int, made: int = 0, passes: int = 0) -> None:
        self.id = number
        self.made = made
        self.has_stepped = False
        self.passes = passes
        self.groups: list[ParameterGroup] = []
        self.identities: list[tuple[int, ...]] = []
        self.of_modules = 0
        self.channels: tuple[str, ...] = ()
        self.misplaced: dict[str, tuple[object, object]] = {}
        self.told: set[str] = set()


class Acts(NamedTuple):
    """An optimizer's id, and what came last of "nothing", a "backward" pass since its last step, and a "step"."""

    id: int
    last: str


class OptimizerSettings:
    """Makes `Optimizer` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._known: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Known] = weakref.WeakKeyDictionary()
        self._new: list[weakref.ref[torch.optim.Optimizer]] = []
        self._made = 0
        self._passes = 0

    def note_made(self, optimizer: torch.optim.Optimizer, location: int) -> None:
        """Note where an optimizer is being made, which has no parameters yet."""
        self._made += 1
        self._known[optimizer] = _Known(self._made, location, self._passes)
        self._new.append(weakref.ref(optimizer))

    def before_backward(self, states_of: Callable[[torch.optim.Optimizer], StateTensors]) -> None:
        """Record the optimizers that were made since the last backward pass, those that have proxied parameters."""
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

    def acts_of(self, optimizer: torch.optim.Optimizer) -> Acts | None:
        """What an optimizer has done last; None for one that was made before anything was proxied and never stepped."""
        known = self._known.get(optimizer)
        if known is None:
            return None
        if known.passes < self._passes:
            return Acts(known.id, "backward")
        return Acts(known.id, "step" if known.has_stepped else "nothing")

    def count_passes(self) -> int:
        """How many backward passes have begun."""
        return self._passes

    def have_been_stepped(self, gradients: frozenset[int]) -> bool:
        """Whether an optimizer has stepped with some gradients, by their `id`, since the last backward pass."""
        return any(
            not gradients.isdisjoint(id(each.grad) for each in group["params"])
            for optimizer, known in list(self._known.items())
            if known.has_stepped and known.passes == self._passes
            for group in optimizer.param_groups
        )

    def look(self, optimizer: torch.optim.Optimizer, states: StateTensors, location: int, now_us: int) -> int:
        """Record what has changed since the last step of an optimizer.

        Args:
            optimizer: it steps.
            states: those of its parameters that proxied modules have.
            location: where it steps.
            now_us: when.

        Returns:
            The id of the optimizer.
        """
        known = self._known.get(optimizer)
        channels = tuple(self._tracer.channels)
        if known is None:
            self._made += 1
            known = self._known[optimizer] = _Known(self._made)
        # A new channel knows nothing; a parameter that a module has no more counts among the others.
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
            made = known.made if is_first else 0
            self._emit(known.id, made, type(optimizer).__name__, changed, location, now_us)
        self._look_for_misplaced(optimizer, known, location, now_us)
        return known.id

    def _look_for_misplaced(self, optimizer: torch.optim.Optimizer, known: _Known, location: int, now_us: int) -> None:
        """Record that the learning rate is set where the optimizer does not read it, once for each name.

        An attribute of one of PyTorch's own classes that is another number than the rate is enough; a key of a group,
        which may be a note of the program's, must have changed while the rate has not.
        """
        group = optimizer.param_groups[0] if optimizer.param_groups else {}
        rate = group.get("lr")
        for name in _ATTRIBUTES:
            value = vars(optimizer).get(name)
            is_own = value is not None and type(optimizer).__module__.startswith("torch.optim.")
            if is_own and _are_unlike(value, rate) and name not in known.told:
                self._tell_misplaced(known, name, location, now_us, is_key=False)
        for name in _KEYS:
            if name in group and name not in known.told:
                value = group[name]
                first, first_rate = known.misplaced.setdefault(name, (value, rate))
                if _are_unlike(first, value) and first_rate == rate:
                    self._tell_misplaced(known, name, location, now_us, is_key=True)

    def _tell_misplaced(self, known: _Known, name: str, location: int, now_us: int, *, is_key: bool) -> None:
        known.told.add(name)
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
        self, number: int, made: int, name: str, changed: Mapping[int, ParameterGroup], location: int, now_us: int
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
        )
        tracer.broadcast(event, location, level=INFO, also=(made,))


def _are_unlike(one: object, other: object) -> bool:
    """Whether both are plain numbers, and not the same."""
    return type(one) in (int, float) and type(other) in (int, float) and one != other


_ATTRIBUTES: Final = ("lr", "learning_rate")
_KEYS: Final = ("learning_rate", "learningrate", "lrate", "LR", "Lr", "l_r")
"""What a learning rate is called by those who set it where no optimizer of PyTorch reads it."""

_NEW: Final = object()
