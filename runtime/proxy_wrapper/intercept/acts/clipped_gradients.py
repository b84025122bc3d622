"""Observes gradient clipping, and gradient scalers that step optimizers."""

from __future__ import annotations

import ast
import functools
import sys
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from proxy_wrapper.events import Clip, ScalerStep, as_number
from proxy_wrapper.intercept.attaching.call_sites import hide_frames, uncounted
from proxy_wrapper.intercept.attaching.replacing import ReplacingInterceptor, Target
from proxy_wrapper.intercept.state.state_records import gradient_of
from proxy_wrapper.levels import INFO
from proxy_wrapper.values.statistics import is_hosted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_wrapper.intercept.state.updates import Updates
    from proxy_wrapper.tracer import Tracer

_MOST_PLACES: Final = 1000
"""The most clipping places that are reported apart."""

_OUT_OF_REACH: Final = 1e6
_BY_VALUE: Final = "clip_grad_value_"
_SCALE: Final = frozenset({"get_scale", "_scale"})
"""The attributes of a scaler with which a program can divide gradients itself."""


class _Clipped(NamedTuple):
    """Gradients that were clipped in one backward pass, by `id`, and where."""

    passes: int
    gradients: frozenset[int]
    location: int


class _Place:
    """A place where gradients are clipped.

    Attributes:
        count: how many times it has clipped.
        again: how often the gradients clipped here were added to and clipped again before a step.
        others: after how many times only optimizers with other parameters stepped.
        passes: how many backward passes had begun at the last time.
        gradients: what was clipped then, by `id`; empty once an optimizer has stepped with them.
        is_of_others: whether another optimizer has stepped since, in the same pass.
        has_served: whether an optimizer has ever stepped with gradients clipped here.
    """

    __slots__ = ("again", "count", "gradients", "has_served", "is_of_others", "others", "passes")

    def __init__(self) -> None:
        self.count = self.again = self.others = self.passes = 0
        self.gradients: frozenset[int] = frozenset()
        self.is_of_others = self.has_served = False


class _Scaled:
    """What a scaler has done for one optimizer.

    Attributes:
        count: how many steps it was asked for.
        skipped: how many of them it skipped.
        stuck: how many it skipped without a smaller scale than at the previous skip.
        clipped: before how many the gradients were clipped while still scaled.
        undivided: how many steps the optimizer took with gradients that were still scaled.
        unscaled: how many backward passes had begun when it last divided the gradients.
        last_skipped: the step that was skipped last.
    """

    __slots__ = ("clipped", "count", "last_skipped", "skipped", "stuck", "undivided", "unscaled")

    def __init__(self) -> None:
        self.count = self.skipped = self.stuck = self.clipped = self.undivided = self.unscaled = 0
        self.last_skipped: _Skip | None = None


class _Skip(NamedTuple):
    """A skipped step: its number, the scale if it can be read, and how often the scaler had lowered or raised it."""

    number: int
    scale: float | None
    updates: int


class _Scaler:
    """A gradient scaler: its number, where it was created, and what it has done for each optimizer.

    `scaled` is the number of the backward pass that follows the last scaling of a loss, `updates` the number of calls
    of `update` that left the scale to the scaler. `is_given`: the program has given it a scale, or its class has an
    `update` of its own, which is not counted.
    """

    def __init__(self, number: int, made: int, kind: type) -> None:
        self.id = number
        self.made = made
        self.scaled = self.updates = 0
        self.is_given = kind.update is not torch.amp.GradScaler.update  # type: ignore[attr-defined]
        self.steps: weakref.WeakKeyDictionary[Any, _Scaled] = weakref.WeakKeyDictionary()


class ClippedGradients(ReplacingInterceptor):
    """Creates `Clip` and `ScalerStep` events."""

    def __init__(self, tracer: Tracer, updates: Updates) -> None:
        super().__init__(tracer)
        self._updates = updates
        self._reported: dict[int, tuple[int, int, bool, bool, tuple[str, ...]]] = {}
        self._clipped: list[_Clipped] = []
        self._places: dict[int, _Place] = {}
        updates.on_step = self._steps
        self._scalers: weakref.WeakKeyDictionary[Any, _Scaler] = weakref.WeakKeyDictionary()
        self._made = 0

    def _targets(self) -> tuple[Target, ...]:
        clipping = torch.nn.utils.clip_grad
        return (
            Target(clipping, "_clip_grads_with_norm_", self._clipper),
            Target(clipping, "_group_tensors_by_device_and_dtype", self._grouper),
            Target(torch.amp.GradScaler, "__init__", self._scaler_maker),
            Target(torch.amp.GradScaler, "scale", self._loss_scaler),
            Target(torch.amp.GradScaler, "unscale_", self._unscaler),
            Target(torch.amp.GradScaler, "_maybe_opt_step", self._scaler_stepper),
            Target(torch.amp.GradScaler, "update", self._scaler_updater),
        )

    # Clipping.

    def _clipper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def _clip_grads_with_norm_(parameters: Any, max_norm: Any, *args: Any, **kwargs: Any) -> Any:
            if type(parameters) is list:  # Reading an iterator would exhaust it.
                self._note(self._clips_by_norm, parameters, max_norm)
            try:
                return original(parameters, max_norm, *args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise

        return _clip_grads_with_norm_

    def _grouper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Recognise clipping by value: of the callers of torch's grouping, the one of that name."""

        @functools.wraps(original)
        @uncounted
        def _group_tensors_by_device_and_dtype(*args: Any, **kwargs: Any) -> Any:
            caller = sys._getframe(1)
            if caller.f_code.co_name == _BY_VALUE and args:
                self._note(self._clips_by_value, args[0][0], caller.f_locals.get("clip_value"))
            return original(*args, **kwargs)

        return _group_tensors_by_device_and_dtype

    def _clips_by_norm(self, parameters: Sequence[torch.Tensor], limit: Any) -> None:
        gradients = [each.grad for each in parameters if each.grad is not None]
        state = None if gradients else next(filter(None, map(self._tracer.registry.state_entry, parameters)), None)
        self._clips(len(parameters), gradients, limit, 0 if state is None else state.id)

    def _clips_by_value(self, gradients: Sequence[torch.Tensor], limit: Any) -> None:
        if gradients:  # Without gradients, the parameters are unknown here.
            self._clips(len(gradients), gradients, limit)

    def _clips(self, count: int, gradients: Sequence[torch.Tensor], limit: Any, first: int = 0) -> None:
        """Record that gradients are clipped; `first` is the id of the first parameter if none has a gradient."""
        tracer = self._tracer
        location = tracer.locator.locate(4)
        identities = frozenset(map(id, gradients))
        is_late = bool(identities) and self._updates.have_been_stepped(identities)
        passes = self._updates.count_passes()
        self._clipped = [each for each in self._clipped if each.passes == passes]
        if len(self._clipped) < _MOST_PLACES:
            self._clipped.append(_Clipped(passes, identities, location))
        place = self._place(location)
        is_reported = place is not None and self._count_clip(place, identities, passes, limit)
        # If a problem here was reported, report once that the gradients are used after all.
        has_served = place is not None and place.has_served and place.others > 0
        reported = (count, len(gradients), is_late, has_served, tuple(tracer.channels))
        if (self._reported.get(location) == reported and not is_reported) or len(self._reported) >= _MOST_PLACES:
            return
        self._reported[location] = reported
        largest = as_number(float(limit)) if type(limit) in (int, float) else None
        thread = tracer.thread
        event = Clip(
            tracer.now_us(),
            tracer.step,
            0,
            location,
            thread.number,
            thread.stage,
            count,
            len(gradients),
            largest,
            is_late,
            first,
            0 if place is None else place.again,
            0 if place is None or place.has_served else place.others,
            0 if place is None else place.count,
        )
        tracer.broadcast(event, location, level=INFO)

    def _place(self, location: int) -> _Place | None:
        """The counts of a place; None if there are too many places."""
        if location not in self._places and len(self._places) >= _MOST_PLACES:
            return None
        return self._places.setdefault(location, _Place())

    def _count_clip(self, place: _Place, gradients: frozenset[int], passes: int, limit: Any) -> bool:
        """Count one clipping at a place; True if it is to be reported.

        A limit out of reach only measures the norm.
        """
        is_reported = False
        accumulated = self._updates.accumulated_passes(gradients)
        if passes - accumulated < place.passes < passes and accumulated > 1:
            place.again += 1
            is_reported = _is_power_of_two(place.again)
        if place.is_of_others and place.gradients and place.passes < passes:
            place.others += 1
            is_reported |= not place.has_served and _is_power_of_two(place.others)
        is_limit = type(limit) in (int, float) and limit < _OUT_OF_REACH
        place.count += 1
        place.passes, place.gradients, place.is_of_others = passes, gradients if is_limit else frozenset(), False
        return is_reported and is_limit

    def _steps(self, optimizer: torch.optim.Optimizer) -> None:
        """Note whether this optimizer uses what was clipped in the present backward pass, or gradients still scaled."""
        passes = self._updates.count_passes()
        for scaler, known in list(self._scalers.items()):
            if known.scaled == passes:
                self._steps_around(scaler, optimizer)
        pending = [each for each in self._places.values() if each.passes == passes and each.gradients]
        if not pending:
            return
        own = {id(gradient_of(each)) for group in optimizer.param_groups for each in group["params"]}
        for place in pending:
            if place.gradients.isdisjoint(own):
                place.is_of_others = True
            else:
                place.gradients, place.has_served = frozenset(), True

    # Scalers.

    def _scaler_maker(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def make_scaler(scaler: Any, *args: Any, **kwargs: Any) -> None:
            try:
                original(scaler, *args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise
            self._note(self._scaler_made, scaler)

        return make_scaler

    def _scaler_made(self, scaler: Any) -> None:
        self._made += 1
        self._scalers[scaler] = _Scaler(self._made, self._tracer.locator.locate(3), type(scaler))

    def _loss_scaler(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def scale(scaler: Any, outputs: Any) -> Any:
            self._note(self._scales, scaler)
            try:
                return original(scaler, outputs)
            except BaseException as error:
                hide_frames(error)
                raise

        return scale

    def _scales(self, scaler: Any) -> None:
        """Note the pass whose gradients will be scaled."""
        if scaler.is_enabled() and scaler in self._scalers:
            self._scalers[scaler].scaled = self._updates.count_passes() + 1

    def _steps_around(self, scaler: Any, optimizer: torch.optim.Optimizer) -> None:
        """Count a step with gradients that the scaler has not divided, unless the program may have done so itself.

        If there were passes at several places, the gradients of this optimizer may be those of another loss.
        """
        known, steps = self._known(scaler, optimizer)
        is_supported = getattr(optimizer, "_step_supports_amp_scaling", False)  # It divides the gradients itself.
        if steps.unscaled == known.scaled or is_supported or not self._updates.place_of_passes(optimizer):
            return
        steps.undivided += 1
        if _is_power_of_two(steps.undivided) and _is_scaling(scaler, known) and not self._is_scale_read():
            self._emit(known, steps, optimizer, self._tracer.locator.locate(5))

    def _is_scale_read(self) -> bool:
        """Whether the file of the function that steps reads the scale."""
        frame = self._tracer.locator.user_frame(1)
        tree = None if frame is None else self._tracer.functions.file_of(frame.f_code)
        return tree is None or any(isinstance(node, ast.Attribute) and node.attr in _SCALE for node in ast.walk(tree))

    def _unscaler(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def unscale_(scaler: Any, optimizer: torch.optim.Optimizer) -> None:
            self._note(self._unscales, scaler, optimizer)
            try:
                original(scaler, optimizer)
            except BaseException as error:
                hide_frames(error)
                raise

        return unscale_

    def _unscales(self, scaler: Any, optimizer: torch.optim.Optimizer) -> None:
        """Note that gradients are unscaled; count those that were clipped before."""
        if not scaler.is_enabled():
            return
        passes = self._updates.count_passes()
        known, steps = self._known(scaler, optimizer)
        steps.unscaled = passes
        if not self._clipped:
            return
        clipped = [each for each in self._clipped if each.passes == passes]
        own = {id(each.grad) for group in optimizer.param_groups for each in group["params"]} if clipped else set()
        early = next((each for each in clipped if not each.gradients.isdisjoint(own)), None)
        if early is None or not _is_scaling(scaler, known):
            return
        steps.clipped += 1
        if _is_power_of_two(steps.clipped):
            self._emit(known, steps, optimizer, early.location)

    def _scaler_stepper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def _maybe_opt_step(
            scaler: Any, optimizer: torch.optim.Optimizer, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
        ) -> Any:
            before = self._tracer.step
            try:
                result = original(scaler, optimizer, optimizer_state, *args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise
            self._note(self._scaler_steps, scaler, optimizer, before)
            return result

        return _maybe_opt_step

    def _scaler_steps(self, scaler: Any, optimizer: torch.optim.Optimizer, before: int) -> None:
        """Count a step that a scaler asks for, and whether it was skipped, for a traced optimizer."""
        tracer = self._tracer
        known, steps = self._known(scaler, optimizer)
        steps.count += 1
        if tracer.step != before or self._updates.last_event_of(optimizer) is None:
            return
        skip = _Skip(steps.count, _scale_of(scaler), known.updates)
        last, steps.last_skipped = steps.last_skipped, skip
        steps.skipped += 1
        interval = scaler.get_growth_interval()
        is_stuck = last is not None and skip.number - last.number < interval and not _may_be_lower(known, skip, last)
        steps.stuck += is_stuck
        if _is_power_of_two(steps.skipped) or (is_stuck and _is_power_of_two(steps.stuck)):
            self._emit(known, steps, optimizer, tracer.locator.locate(3))

    def _scaler_updater(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def update(scaler: Any, new_scale: Any = None) -> None:
            self._note(self._updates_scale, scaler, new_scale)
            try:
                original(scaler, new_scale)
            except BaseException as error:
                hide_frames(error)
                raise

        return update

    def _updates_scale(self, scaler: Any, new_scale: Any) -> None:
        """Note whether the scaler itself chooses its next scale."""
        known = self._scalers.get(scaler)
        if known is not None:
            known.updates += new_scale is None
            known.is_given |= new_scale is not None

    def _known(self, scaler: Any, optimizer: torch.optim.Optimizer) -> tuple[_Scaler, _Scaled]:
        known = self._scalers.get(scaler)
        if known is None:
            self._made += 1
            known = self._scalers[scaler] = _Scaler(self._made, 0, type(scaler))
        steps = known.steps.get(optimizer)
        if steps is None:
            steps = known.steps[optimizer] = _Scaled()
        return known, steps

    def _emit(self, known: _Scaler, steps: _Scaled, optimizer: torch.optim.Optimizer, location: int) -> None:
        tracer = self._tracer
        last_event = self._updates.last_event_of(optimizer)
        thread = tracer.thread
        event = ScalerStep(
            tracer.now_us(),
            tracer.step,
            0,
            location,
            thread.number,
            thread.stage,
            known.id,
            0 if last_event is None else last_event.id,
            known.made,
            steps.count,
            steps.skipped,
            steps.stuck,
            steps.clipped,
            steps.undivided,
        )
        tracer.broadcast(event, location, level=INFO, also=(known.made,))


def _is_power_of_two(count: int) -> bool:
    return count & (count - 1) == 0


def _scale_of(scaler: Any) -> float | None:
    """The scale of a scaler; None on an accelerator, where reading it would make the training thread wait."""
    held: torch.Tensor | None = scaler._scale
    scale: float | None = scaler.get_scale() if held is None or is_hosted(held) else None
    return scale


def _is_scaling(scaler: Any, known: _Scaler) -> bool:
    """Whether the scale is not 1. If it cannot be read, whether it has been lowered too seldom to have come to 1."""
    scale = _scale_of(scaler)
    if scale is not None:
        return scale != 1.0
    lowest: float = scaler._init_scale * scaler.get_backoff_factor() ** known.updates
    return lowest > 1.0 and not known.is_given


def _may_be_lower(known: _Scaler, skip: _Skip, last: _Skip) -> bool:
    """Whether the scale at a skipped step was lower than at the one skipped before.

    If it cannot be read: whether an `update` may have lowered it.
    """
    if skip.scale is None or last.scale is None:
        return known.is_given or skip.updates > last.updates
    return skip.scale < last.scale
