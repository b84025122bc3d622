"""Records gradients that no optimizer step uses: of parameters trained by hand, and of those that nobody trains."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from proxy_wrapper.events import StatePattern, Statistics
from proxy_wrapper.intercept.state.state_records import gradient_of
from proxy_wrapper.known.state_tensors import StateTensors
from proxy_wrapper.levels import INFO
from proxy_wrapper.values.pending import PendingStatistics, is_nothing, was_cleared
from proxy_wrapper.values.value_marks import marks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import torch

    from proxy_wrapper.events import Gradient
    from proxy_wrapper.intercept.state.known_optimizers import KnownOptimizers
    from proxy_wrapper.intercept.state.state_records import StateRecords
    from proxy_wrapper.known.entries import StateEntry
    from proxy_wrapper.known.training import Training
    from proxy_wrapper.tracer import Tracer
    from proxy_wrapper.values.statistics import PendingOr

_FEW: Final = 16
"""The backward passes whose gradients are kept while a program is not known to train anything."""

_SETTLED_AFTER: Final = 2
"""The steps of a thread after which optimizers are searched for that could use a waiting gradient of it. Steps of
other threads do not count: the optimizer may not exist yet."""

_FEWEST_CARRIED: Final = 4
"""How many steps by hand, all but the first, must leave their gradients before this is reported."""

_MOST_KEPT: Final = 256
"""The most gradients of one parameter that are kept for an optimizer that does not step."""


GradientMarks: TypeAlias = "dict[int, tuple[int, int, int] | None]"


class Waiting(NamedTuple):
    """Gradients of one parameter, while it is unknown whether an optimizer will use them.

    `training` is that of the thread that produced the last one; `since` is the number of steps that thread had made at
    its first one.
    """

    training: Training
    since: int
    gradients: list[Gradient]


class HandTraining:
    """Records the gradients that a backward pass leaves where no optimizer will use them.

    Whether one will is unknown at first. So the statistics of the gradients are kept until a step of an optimizer with
    the parameter, a change without one, or a search for optimizers shows it.

    Each thread has its own `Training`: a thread that trains by hand says nothing about the models of another.

    It also notes which gradients a step should have found. After a step that found none, or zeros, the gradients are
    summarised right after each backward pass. The next step then shows whether they were cleared in between.
    """

    def __init__(self, tracer: Tracer, records: StateRecords, optimizers: KnownOptimizers) -> None:
        self._tracer = tracer
        self._records = records
        self._optimizers = optimizers
        self._waiting: dict[int, Waiting] = {}
        self._has_looked_for: set[int] = set()
        # How many gradients each parameter has had that no optimizer used at once.
        self._gradients: Counter[int] = Counter()
        # Parameters trained by hand or by nobody; parameters whose last step found no gradient.
        self._settled: set[int] = set()
        self._without_gradient: dict[int, StateEntry] = {}
        # The gradients that the last backward passes left and that a step may miss.
        self._left: dict[int, PendingOr] = {}
        # Parameters whose gradient at the last step may be zero: an accelerator has yet to tell.
        self._undecided: dict[int, tuple[StateEntry, PendingStatistics]] = {}
        # What the last backward pass left, and the parameters that a step by hand has changed since.
        self._after: dict[int, tuple[tuple[int, int, int], PendingOr]] = {}
        self._stepped: set[int] = set()
        self._steps = self._carried = 0
        # Parameters that no optimizer has stepped, and the number of registered tensors when they were listed.
        self._without: list[StateEntry] = []
        self._without_as_of = -1

    @property
    def is_by_hand(self) -> bool:
        """Whether the calling thread trains by hand."""
        return self._tracer.thread.training.is_by_hand

    @property
    def is_step_due(self) -> bool:
        """Whether a change would end a step by hand of the calling thread."""
        return self._tracer.thread.training.is_step_due

    @property
    def has_trained(self) -> bool:
        """Whether the calling thread may have trained since its last step, with an optimizer or without."""
        training = self._tracer.thread.training
        return training.has_optimizer or training.is_step_due

    def note_optimizer(self, states: StateTensors) -> None:
        """Note that an optimizer steps these parameters; the step itself records their gradients."""
        training = self._tracer.thread.training
        training.has_optimizer = True
        training.is_by_hand = False
        for state in states.entries:
            if not state.has_optimizer:
                state.has_optimizer = True
                self._without_as_of = -1
                self._settled.discard(state.id)
                waited = self._waiting.pop(state.id, None)
                if waited is not None:
                    self._left[state.id] = waited.gradients[-1].statistics

    def marks_of_gradients(self) -> GradientMarks:
        """Marks that later show to which gradients, of parameters without an optimizer, a backward pass has added.

        Parameters left out here are left out afterwards too. Their thread may have ended by then, and its gradients
        would look like those of this pass.
        """
        if self._stepped and self._steps <= _FEWEST_CARRIED:
            self._forget_rewritten()
        return {
            state.id: None if tensor is None else _marks_of_gradient(tensor)
            for state, tensor in self._without_optimizer()
        }

    def after_backward(self, location: int, before: GradientMarks | None) -> None:
        """Record the gradients that a backward pass, called from `location`, has left.

        Args:
            location: where the pass was called.
            before: the result of `marks_of_gradients` before it; None if it returns gradients and leaves none.
        """
        training = self._tracer.thread.training
        training.is_step_due = not training.has_optimizer
        if before is None:
            return
        self._note_left()
        if not training.has_optimizer and not training.is_by_hand:
            training.backward_passes += 1
            if training.backward_passes > _FEW:
                return
        reached = StateTensors()
        for state, tensor in self._without_optimizer():
            if tensor is None or state.id not in before:
                continue
            marks = _marks_of_gradient(tensor)
            if marks is not None and marks != before[state.id]:
                reached.add(state, tensor)
        if training.has_optimizer:
            self._unsettle(reached)
        if reached:
            gradients = self._records.gradients(reached, location, has_optimizer=False)
            if training.is_by_hand:
                self._note_carried(reached, gradients, before, location)
            self._take(gradients)
            if training.has_optimizer:
                self._settle_overdue(reached)

    def _note_carried(
        self, reached: StateTensors, gradients: Sequence[Gradient], before: GradientMarks, location: int
    ) -> None:
        """Note whether a pass has added to gradients that a step by hand had used, and nothing has touched since."""
        stepped, self._stepped = self._stepped, set()
        carried = 0
        for number in stepped:
            marks, statistics = self._after.get(number, (None, None))
            if marks is not None and before.get(number) == marks and type(statistics) is Statistics:
                carried = number if not is_nothing(statistics) else carried
        known = {each.tensor: each.statistics for each in gradients}
        self._after = {
            state.id: (marks, known.get(state.id))
            for state, tensor in reached
            if (marks := _marks_of_gradient(tensor)) is not None
        }
        self._steps += bool(stepped)
        self._carried += carried > 0
        if carried and self._carried == _FEWEST_CARRIED and self._steps <= _FEWEST_CARRIED + 1:
            tracer = self._tracer
            thread = tracer.thread
            event = StatePattern(
                *(tracer.now_us(), tracer.step, 0, location, thread.number, thread.stage),
                what="gradient-carried",
                tensor=carried,
                values=(self._carried, self._steps),
            )
            tracer.broadcast(event, location, level=INFO)

    def _forget_rewritten(self) -> None:
        """Forget gradients whose values are not those that the last pass left; `grad.data.zero_()` leaves no mark."""
        states = StateTensors()
        for number in self._stepped & self._after.keys():
            state = self._tracer.registry.state.get(number)
            tensor = state.tensor() if state is not None else None
            if state is not None and tensor is not None and gradient_of(tensor) is not None:
                states.add(state, tensor)
        for state, statistics in zip(states.entries, self._records.statistics_of_gradients(states), strict=True):
            if statistics != self._after[state.id][1]:
                del self._after[state.id]

    def note_changed(self, changed: Iterable[StateEntry]) -> None:
        """Note parameters changed without an optimizer: those that had gradients are trained by hand."""
        for state in changed:
            if state.id in self._waiting:
                self._settle(state.id)

    def by_training(self, changed: Iterable[StateEntry]) -> dict[Training, list[StateEntry]]:
        """The changed parameters per thread that used their model last; the calling thread is always included."""
        found: dict[Training, list[StateEntry]] = {self._tracer.thread.training: []}
        for state in changed:
            found.setdefault(self._training_of(state), []).append(state)
        return found

    def ends_step(self, training: Training, changed: Sequence[StateEntry]) -> bool:
        """Whether a thread has made a step by hand since its last module call.

        Args:
            training: the state of that thread.
            changed: the parameters found changed since. Those of modules whose iteration is not recorded are not
                examined; for them the backward pass alone counts.
        """
        if training.has_optimizer or not training.is_step_due:
            return False
        has_changed = any(_is_trained(state) for state in changed)
        self._stepped.update(state.id for state in changed)
        if has_changed and not training.is_by_hand:
            training.is_by_hand = True
            self._settle_where(lambda state: self._training_of(state) is training)
        is_paused = training.is_by_hand and all(entry.is_paused for entry in self._tracer.registry)
        training.is_step_due = not (has_changed or is_paused)
        return has_changed or is_paused

    def may_have_changed(self, state: StateEntry) -> bool:
        """Whether a parameter's only gradient came after the last look at it: training may have changed it since."""
        return self._gradients.pop(state.id, 0) == 1

    def settle_all(self) -> None:
        """Record all gradients that no optimizer has used so far."""
        self._settle_where(lambda _: True)

    def _settle_where(self, is_due: Callable[[StateEntry], bool]) -> None:
        for number in list(self._waiting):
            state = self._tracer.registry.state.get(number)
            if state is None or is_due(state):
                self._settle(number)

    def _training_of(self, state: StateEntry) -> Training:
        """The state of the thread that last used the model of a parameter."""
        return state.holder.top.training or self._tracer.thread.training

    def with_cleared(self, gradients: Sequence[Gradient]) -> list[Gradient]:
        """The gradients of a step; missing or zero ones say whether they were cleared."""
        return [self._with_cleared(gradient) for gradient in gradients]

    def _with_cleared(self, gradient: Gradient) -> Gradient:
        number, now = gradient.tensor, gradient.statistics
        if isinstance(now, PendingStatistics):
            state = self._tracer.registry.state.get(number)
            if state is not None:
                self._undecided[number] = state, now
        elif is_nothing(now):
            state = self._tracer.registry.state.get(number)
            if state is not None:
                self._without_gradient[number] = state
        elif self._without_gradient:
            self._without_gradient.pop(number, None)
        left = self._left.pop(number, None) if self._left else None
        return gradient if left is None else msgspec.structs.replace(gradient, cleared=was_cleared(left, now))

    def _note_left(self) -> None:
        """Summarise the gradients of parameters whose last step found none."""
        for number, (state, pending) in list(self._undecided.items()):
            arrived = pending.arrived
            if arrived is not None:
                del self._undecided[number]
                if is_nothing(arrived):
                    self._without_gradient[number] = state
                else:
                    self._without_gradient.pop(number, None)
        if not self._without_gradient:
            return
        tracer = self._tracer
        thread = tracer.thread
        states = StateTensors()
        for number, state in list(self._without_gradient.items()):
            if tracer.is_used_elsewhere(state.holder, thread):
                continue
            tensor = state.tensor()
            if tracer.registry.state.get(number) is not state or tensor is None:
                del self._without_gradient[number]
            elif gradient_of(tensor) is None:
                self._left.pop(number, None)  # The gradient of an earlier pass was cleared before this one.
            elif not state.holder.is_paused:
                states.add(state, tensor)
        for state, statistics in zip(states.entries, self._records.statistics_of_gradients(states), strict=True):
            self._left[state.id] = statistics

    def _take(self, gradients: Iterable[Gradient]) -> None:
        """Send the gradients that are known to have no optimizer, and keep the others."""
        known = []
        thread = self._tracer.thread
        training = thread.training
        for gradient in gradients:
            number = gradient.tensor
            self._gradients[number] += 1
            if training.is_by_hand or number in self._settled:
                known.append(gradient)
                continue
            waiting = self._waiting.get(number)
            if waiting is None or waiting.training is not training:
                kept = waiting.gradients if waiting is not None else []
                waiting = self._waiting[number] = Waiting(training, thread.steps, kept)
            if len(waiting.gradients) < _MOST_KEPT:
                waiting.gradients.append(gradient)
        self._records.send_gradients(known)

    def _unsettle(self, reached: StateTensors) -> None:
        """Wait again for parameters that have been added to an optimizer."""
        settled = {id(tensor): state.id for state, tensor in reached if state.id in self._settled}
        if settled:
            taken = self._optimizers.taken(set(settled))
            self._settled.difference_update(settled[identity] for identity in taken)

    def _settle_overdue(self, reached: StateTensors) -> None:
        """Record gradients that have waited for some steps, of parameters that no optimizer has."""
        now = self._tracer.thread.steps
        due = {
            id(tensor): state.id
            for state, tensor in reached
            if state.id in self._waiting and now - self._waiting[state.id].since >= _SETTLED_AFTER
        }
        if not due:
            return
        if not self._has_looked_for.issuperset(due.values()):
            self._has_looked_for.update(due.values())
            self._optimizers.find_all()
        for identity in due.keys() - self._optimizers.taken(set(due)):
            self._settle(due[identity])

    def _settle(self, number: int) -> None:
        self._settled.add(number)
        self._records.send_gradients(self._waiting.pop(number).gradients)

    def _without_optimizer(self) -> Iterator[tuple[StateEntry, torch.Tensor | None]]:
        """The parameters that no optimizer has stepped and whose present iteration is recorded.

        Models of other threads are left to those. A tensor is None if its name is unassigned.
        """
        tracer = self._tracer
        registry, thread = tracer.registry, tracer.thread
        if self._without_as_of != registry.states_added:
            self._without_as_of = registry.states_added
            self._without = [s for s in list(registry.state.values()) if not (s.has_optimizer or s.is_buffer)]
        for state in self._without:
            if not (state.holder.is_paused or tracer.is_used_elsewhere(state.holder, thread)):
                yield state, state.tensor()


def _marks_of_gradient(tensor: torch.Tensor) -> tuple[int, int, int] | None:
    """Marks that show whether a backward pass has added to the gradient; None if there is none."""
    gradient = gradient_of(tensor)
    return None if gradient is None else (id(gradient), *marks_of(gradient))


def _is_trained(state: StateEntry) -> bool:
    tensor = state.tensor()
    return tensor is not None and tensor.requires_grad
