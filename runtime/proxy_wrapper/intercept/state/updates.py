"""Observes gradients and changes of parameters and buffers, at each optimizer step and between steps.

PyTorch's global optimizer hooks report steps. `StateChanges` finds other changes, and `HandTraining` the gradients
for which there is no optimizer.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.events import OptimizerStep, OptimizerStepEnd
from proxy_wrapper.intercept.attaching.global_hooks import GlobalHooks
from proxy_wrapper.intercept.state.carried_gradients import CarriedGradients
from proxy_wrapper.intercept.state.freezing import Freezing
from proxy_wrapper.intercept.state.hand_training import HandTraining
from proxy_wrapper.intercept.state.kept_gradients import KeptGradients
from proxy_wrapper.intercept.state.known_optimizers import KnownOptimizers
from proxy_wrapper.intercept.state.left_gradients import LeftGradients
from proxy_wrapper.intercept.state.moving_averages import MovingAverages
from proxy_wrapper.intercept.state.optimizer_settings import OptimizerSettings
from proxy_wrapper.intercept.state.state_changes import StateChanges
from proxy_wrapper.intercept.state.state_records import StateRecords, is_watched
from proxy_wrapper.known.entries import StateEntry
from proxy_wrapper.known.state_tensors import Changes, StateTensors
from proxy_wrapper.known.thread_state import SteppingWithClosure
from proxy_wrapper.levels import INFO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from proxy_wrapper.intercept.state.hand_training import GradientMarks
    from proxy_wrapper.intercept.state.optimizer_states import OptimizerStates
    from proxy_wrapper.tracer import Tracer

_STEP: Final = torch.optim.Optimizer.profile_hook_step(lambda _: None).__code__
"""The code of torch's wrapper around the `step` of every optimizer, which calls the hooks."""


_NONE: Final[frozenset[Any]] = frozenset()


class Updates:
    """Creates `OptimizerStep` and `OptimizerStepEnd` events, and triggers the search for gradients and changes."""

    def __init__(self, tracer: Tracer, optimizer_states: OptimizerStates, read_source: Callable[[int], None]) -> None:
        self._tracer = tracer
        self._records = StateRecords(tracer)
        self._changes = StateChanges(tracer, self._records)
        self._optimizer_states = optimizer_states
        self._read_source = read_source
        self._known = KnownOptimizers()
        self._by_hand = HandTraining(tracer, self._records, self._known)
        self.after_backward = self._by_hand.after_backward
        self._settings = OptimizerSettings(tracer)
        self.note_made, self.last_event_of = self._settings.note_made, self._settings.last_event_of
        self.note_scheduler = self._settings.note_scheduler
        self.have_been_stepped, self.count_passes = self._settings.have_been_stepped, self._settings.count_passes
        self._carried = CarriedGradients(tracer)
        self._left = LeftGradients(tracer, self._carried)
        self.accumulated_passes = self._carried.accumulated_passes
        self.place_of_passes = self._carried.place_of_passes
        self.on_step: Callable[[torch.optim.Optimizer], None] = _ignore_step
        """Called with each optimizer that is about to step."""
        self._freezing = Freezing(tracer)
        self._kept = KeptGradients(tracer)
        self._averages = MovingAverages(tracer)
        self._iterations = IterationCount()
        # How many of an optimizer's parameters belonged to no proxied module when new modules were last searched for.
        self._unknown: weakref.WeakKeyDictionary[torch.optim.Optimizer, int] = weakref.WeakKeyDictionary()
        self._hooks = GlobalHooks(
            sys.modules[torch.optim.Optimizer.__module__],
            {"_global_optimizer_post_hooks": self.after_step, "_global_optimizer_pre_hooks": self.before_step},
        )

    def install(self) -> None:
        """Register the hooks."""
        self._hooks.put_in()

    def remove(self) -> None:
        """Remove the hooks."""
        self._hooks.take_out()

    def without_ours(self, value: Any) -> Any:
        """What torch would have in place of `value`, one of its registries of hooks, without ours."""
        return self._hooks.without_ours(value)

    def before_root_call(self) -> None:
        """Record what has changed since the last module call, if no optimizer step came between."""
        by_hand = self._by_hand
        self._define_freed()
        changed = self._changes.glance(
            trains_by_hand=by_hand.is_by_hand, has_trained=by_hand.has_trained, left_out=self._being_stepped()
        )
        self._averages.look(changed)
        self._end_step_by_hand(changed)

    def _define_freed(self) -> None:
        """Report the freed parameters whose last change is unknown."""
        registry = self._tracer.registry
        if registry.freed:
            freed, registry.freed = registry.freed, []
            self._tracer.definitions.define_freed(filter(self._by_hand.may_have_changed, freed))

    def before_backward(self, roots: Sequence[torch.Tensor], location: int) -> GradientMarks:
        """Record tensors found replaced before the last call that still are; returns the marks of gradients."""
        changed = self._changes.confirm()
        if changed:
            self._end_step_by_hand(changed)
        self._left.before_backward(roots, location)
        self._carried.before_backward(location)
        self._settings.before_backward(self._states)
        return self._by_hand.marks_of_gradients()

    def _end_step_by_hand(self, changed: Sequence[StateEntry]) -> None:
        """End each step by hand to which these changes belong."""
        by_hand = self._by_hand
        if not (changed or by_hand.is_step_due):
            return
        by_hand.note_changed(changed)
        for training, states in by_hand.by_training(changed).items():
            if not by_hand.ends_step(training, states):
                continue
            for state in list(self._tracer.registry.state.values()) if self._tracer.is_sampling else ():
                if state.holder.is_paused and not state.is_buffer:
                    state.unrecorded_step = self._tracer.step
            if states:
                by_hand.note_changed(self._changes.look())  # Includes the buffers, as at an optimizer step.
            self._tracer.end_step(ends_iteration=True)
            self._changes.follow_step()

    def before_flush(self) -> None:
        """Record the present state of the model, and the step by hand that led to it."""
        self.before_root_call()
        self._end_step_by_hand(self._changes.look(is_last=True))
        self._by_hand.settle_all()
        self._tracer.definitions.define_removed()

    def before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """Record that `optimizer` begins to step. `args` are those of `step`, the optimizer first."""
        try:
            tracer = self._tracer
            if tracer.thread.inside is None:
                tracer.ranks.note()  # A short program may leave its process group before the next write.
                with tracer.lock, torch._C.DisableTorchFunction():
                    self._begin(optimizer, _has_closure(args, kwargs))
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self._tracer.fail(error)

    def after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """Record that `optimizer` has stepped, and the changes."""
        try:
            tracer = self._tracer
            if tracer.thread.inside is None:
                with tracer.lock, torch._C.DisableTorchFunction():
                    self._end(optimizer, _has_closure(args, kwargs))
        except Exception as error:  # noqa: BLE001
            self._tracer.fail(error)

    def _being_stepped(self) -> frozenset[StateEntry]:
        """The parameters of an optimizer in whose step this thread is calling a closure."""
        thread = self._tracer.thread
        stepping = thread.stepping
        if stepping is None:
            return _NONE
        frame: FrameType | None = sys._getframe()
        while frame is not None and id(frame) != stepping.frame:
            frame = frame.f_back
        if frame is None or frame.f_code is not _STEP:  # An exception has left the step.
            thread.stepping = None
            return _NONE
        return stepping.states

    def _begin(self, optimizer: torch.optim.Optimizer, has_closure: bool) -> None:
        states = self._states(optimizer)
        if self._is_part_of_step(states):
            return
        self._tracer.thread.leave_optimizer()
        unknown = sum(len(group["params"]) for group in optimizer.param_groups) - len(states)
        changed: Sequence[StateEntry] = ()
        if unknown and unknown != self._unknown.get(optimizer):
            self._tracer.take_up_new()
            changed = self._changes.look()  # Finds what was replaced since another model's step.
            states = self._states(optimizer)
            self._unknown[optimizer] = sum(len(group["params"]) for group in optimizer.param_groups) - len(states)
        if states:
            self._known.add(optimizer)
            self._tracer.note_use(states.entries[0].holder)
        elif optimizer not in self._known:
            self._settings.look(optimizer, states, self._tracer.locator.locate(3), self._tracer.now_us())
            return
        self.on_step(optimizer)
        self._by_hand.note_optimizer(states)
        self._by_hand.note_changed(changed)
        recorded = self._recorded(states)
        if states and not recorded:
            return
        tracer = self._tracer
        tracer.configurations.look(with_autocast=False)
        began = tracer.thread.optimizer_began_us = tracer.now_us()
        location = tracer.locator.locate(3)
        frame = _frame_of_step(sys._getframe(2))
        tracer.thread.enter_optimizer(frame, location)
        if frame and has_closure:
            tracer.thread.stepping = SteppingWithClosure(frame, frozenset(states.entries))
        name, thread, stage = type(optimizer).__name__, tracer.thread.number, tracer.thread.stage
        number = self._settings.before_step(optimizer, states, location, began)
        self._freezing.look(optimizer, states, location)
        self._read_source(location)
        carried: Any = not has_closure and self._carried.are_carried(optimizer)
        dropped = self._carried.dropped_passes(optimizer)
        self._emit(
            OptimizerStep(began, tracer.step, 0, location, thread, stage, name, len(states), number, carried, dropped),
            recorded,
        )
        changed = self._changes.look()
        self._averages.look(changed)
        self._by_hand.note_changed(changed)
        self._kept.look(optimizer, states, location)
        self._left.before_step(optimizer, states, location)
        if not has_closure:
            self._send_gradients(optimizer, recorded, location)
        self._optimizer_states.before_step(optimizer, recorded, location)

    def _end(self, optimizer: torch.optim.Optimizer, has_closure: bool) -> None:
        if optimizer not in self._known:
            return
        states = self._states(optimizer)
        if self._is_part_of_step(states):
            return
        tracer = self._tracer
        tracer.thread.stepping = None
        self._settings.after_step(optimizer)
        recorded = self._recorded(states)
        if len(recorded) < len(states):
            for state in states.entries:
                if state.holder.is_paused:
                    state.unrecorded_step = tracer.step
        if recorded or not states:
            self._record_step(optimizer, recorded, has_closure)
        tracer.end_step(ends_iteration=self._iterations.is_ended_by(optimizer))

    def _record_step(self, optimizer: torch.optim.Optimizer, recorded: StateTensors, has_closure: bool) -> None:
        tracer = self._tracer
        location = tracer.thread.optimizer_location
        tracer.thread.leave_optimizer()
        carried: Any = has_closure and self._carried.are_carried(optimizer)
        if has_closure:  # Not earlier, since the closure computes the gradients.
            self._send_gradients(optimizer, recorded, location)
        for state in recorded.entries:
            state.unrecorded_step = -1
        changes = Changes(recorded.where(is_watched), "step")
        self._records.record_updates(changes, location, is_compared=tracer.thread.has_compared_all)
        self._optimizer_states.after_step(optimizer, recorded, location)
        now = tracer.now_us()
        name, thread, stage = type(optimizer).__name__, tracer.thread.number, tracer.thread.stage
        duration = now - tracer.thread.optimizer_began_us
        self._emit(OptimizerStepEnd(now, tracer.step, 0, location, thread, stage, name, duration, carried), recorded)

    def _send_gradients(self, optimizer: torch.optim.Optimizer, recorded: StateTensors, location: int) -> None:
        """Record the gradients at a step."""
        gradients = self._by_hand.with_cleared(self._records.gradients(recorded, location))
        self._records.send_gradients(gradients)
        self._carried.after_step(optimizer, gradients)

    def _emit(self, event: OptimizerStep | OptimizerStepEnd, recorded: StateTensors) -> None:
        """Send an event to the channels of the modules of `recorded`; to all channels if there are none."""
        if not recorded:
            self._tracer.broadcast(event, event.location, level=INFO)
        for channel in {state.holder.channel for state in recorded.entries if state.holder.level <= INFO}:
            channel.emit(event, event.location)

    def _states(self, optimizer: torch.optim.Optimizer) -> StateTensors:
        """The proxied parameters that `optimizer` updates, in its order."""
        known = self._tracer.registry.by_identity
        found = StateTensors()
        tensor: torch.Tensor
        for group in optimizer.param_groups:
            for tensor in group["params"]:
                state = known.get(id(tensor))
                if state is not None and type(state) is StateEntry and state.tensor() is tensor:
                    found.add(state, tensor)
        return found

    def _is_part_of_step(self, states: StateTensors) -> bool:
        """Whether this step runs inside another one, of an optimizer that has all of its parameters.

        Examples: a base class's `step` called by `super().step()`, and optimizers around another one (Lookahead, SAM,
        `ZeroRedundancyOptimizer`).
        """
        hook = sys._getframe(2)
        frame = hook.f_back
        if frame is not None and frame.f_code is _STEP:
            frame = frame.f_back  # This step itself.
        while frame is not None:
            if frame.f_code is _STEP:
                around: torch.optim.Optimizer | None = frame.f_locals.get("self")
                if around is not None and around in self._known:
                    return set(states.entries) <= set(self._states(around).entries)
            frame = frame.f_back
        return False

    def _recorded(self, states: StateTensors) -> StateTensors:
        """The states of modules for which the present iteration is recorded."""
        if not self._tracer.is_sampling:
            return states
        return states.where(lambda state: not state.holder.is_paused)


class IterationCount:
    """Tells which optimizer steps end an iteration: those of the leading optimizer.

    The first optimizer to step leads, until another steps twice in a row without it.
    """

    def __init__(self) -> None:
        self._leader: weakref.ref[torch.optim.Optimizer] | None = None
        self._followers: set[int] = set()

    def is_ended_by(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the step that `optimizer` has just made ends an iteration."""
        leader = self._leader() if self._leader is not None else None
        if leader is not None and leader is not optimizer and id(optimizer) not in self._followers:
            self._followers.add(id(optimizer))
            return False
        if leader is not optimizer:
            self._leader = weakref.ref(optimizer)
        self._followers.clear()
        return True


def _ignore_step(_: torch.optim.Optimizer) -> None:
    """Do nothing."""


def _frame_of_step(frame: FrameType) -> int:
    """The `id` of the frame that called a hook, if it is torch's wrapper around `step`, which outlives the step."""
    return id(frame) if frame.f_code is _STEP else 0


def _has_closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether `step` was given a closure: the first argument after the optimizer itself."""
    return kwargs.get("closure") is not None or (len(args) > 1 and args[1] is not None)
